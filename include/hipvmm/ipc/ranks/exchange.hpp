// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/element_range.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/container/reserve_all.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// The elements that exchange(), gather() or all_gather() appended to a vector.
struct exchange_result {
  std::vector<std::size_t> counts;   ///< elements that came from each rank: size() of them
  std::vector<std::size_t> offsets;  ///< index in the vector of the first element from each rank,
                                     ///< and the vector's size: size() + 1 of them
};

namespace detail {

enum class exchange_function { exchange, gather, all_gather };

/// One call of exchange(), gather() or all_gather(), for any element type.
struct exchange_request {
  exchange_function function;
  std::size_t element_bytes;
  const void* source;
  std::size_t source_count;
  const std::vector<std::size_t>* counts;  // of exchange()
  int root;                                // of gather()
  growable_storage* storage;               // of the vector that grows
  std::size_t size;                        // its elements
};

/// `resize` sets the vector's size, without contents.
exchange_result exchange_elements(const exchange_request& request, communicator& ranks,
                                  stream_ref stream,
                                  const std::function<void(std::size_t)>& resize);

template <typename T>
exchange_result exchange_elements(exchange_request request, device_span<const T> source,
                                  growable_device_vector<T>& out, communicator& ranks,
                                  stream_ref stream) {
  const std::size_t before = out.size();
  request.element_bytes = sizeof(T);
  request.source = source.data();
  request.source_count = source.size();
  request.storage = &reservation_request{out, 0}.storage();
  request.size = before;
  try {
    return exchange_elements(request, ranks, stream,
                             [&](std::size_t count) { out.resize_uninitialized(count); });
  } catch (...) {
    out.resize(before, stream);  // not more than there are: cannot fail
    throw;
  }
}

template <typename Range, typename T>
using if_device_range = std::enable_if_t<is_device_range_v<Range, T>>;

}  // namespace detail

/// Sends the first counts[0] elements of `source` to rank 0, the next counts[1] to rank 1 and so
/// on, and appends the elements received from all ranks to `out`, in the order of ranks. A
/// collective call, see communicator.
/// - The ranks exchange the counts first: `out` grows once, and the elements arrive at its end,
///   without staging. Counts may be zero.
/// - `source`: device memory, also elements of `out`; may be changed in `stream` afterwards.
/// - Stream: sends and receives in its order. Waits for the other ranks, up to
///   communicator_options::limit for each step; one step less if every receiving `out` has room,
///   capacity() - size(), for the largest counts of all ranks together and no
///   growth_options::grow_ahead, because no rank can fail then.
/// Throws, and `out` has its former size and elements, on every rank:
/// - the rank at fault: std::invalid_argument if `counts` has not one entry for each rank or its
///   sum is not the source's size, if `stream` is captured, or if `stream` or `out` belongs to
///   another device than ranks.device(); std::out_of_range if the source exceeds the elements of
///   `out`; std::logic_error while `out` sleeps; as growable_device_vector::reserve;
///   std::bad_alloc; hip_error
/// - the others: rank_error, of rank_failure::remote with that rank and its message
/// - all: rank_error, of rank_failure::refused if functions or sizes of elements differ; as
///   communicator
/// capacity() is as before too, unless the transfer itself failed, the growth exceeded max_size(),
/// or it copied.
template <typename T, typename Range, typename = detail::if_device_range<Range, T>>
exchange_result exchange(const Range& source, const std::vector<std::size_t>& counts,
                         growable_device_vector<T>& out, communicator& ranks, stream_ref stream) {
  return detail::exchange_elements<T>(
      {detail::exchange_function::exchange, 0, nullptr, 0, &counts, 0, nullptr, 0},
      device_span<const T>{source}, out, ranks, stream);
}

/// Appends the elements of every rank's `source` to the `out` of rank `root`, in the order of
/// ranks; the `out` of other ranks is unchanged. Otherwise as exchange().
template <typename T, typename Range, typename = detail::if_device_range<Range, T>>
exchange_result gather(const Range& source, growable_device_vector<T>& out, int root,
                       communicator& ranks, stream_ref stream) {
  return detail::exchange_elements<T>(
      {detail::exchange_function::gather, 0, nullptr, 0, nullptr, root, nullptr, 0},
      device_span<const T>{source}, out, ranks, stream);
}

/// Appends the elements of every rank's `source` to the `out` of every rank, in the order of ranks.
/// Otherwise as exchange().
template <typename T, typename Range, typename = detail::if_device_range<Range, T>>
exchange_result all_gather(const Range& source, growable_device_vector<T>& out, communicator& ranks,
                           stream_ref stream) {
  return detail::exchange_elements<T>(
      {detail::exchange_function::all_gather, 0, nullptr, 0, nullptr, 0, nullptr, 0},
      device_span<const T>{source}, out, ranks, stream);
}

}  // namespace hipvmm
