// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <initializer_list>
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
  std::vector<std::size_t> offsets;  ///< index of each rank's first element, and the vector's size
};

namespace detail {

enum class exchange_function { exchange, gather, all_gather };

template <typename Range, typename T>
using if_device_range = std::enable_if_t<is_device_range_v<Range, T>>;

}  // namespace detail

/// Elements to send and the vector that receives, of any element type, for exchange().
class exchange_array {
 public:
  template <typename T, typename Range, typename = detail::if_device_range<Range, T>>
  exchange_array(const Range& source, growable_device_vector<T>& out)
      : source_{device_span<const T>{source}.data()},
        source_count_{device_span<const T>{source}.size()},
        element_bytes_{sizeof(T)},
        size_{out.size()},
        storage_{&reservation_request{out, 0}.storage()},
        out_{&out},
        resize_{[](void* vector, std::size_t count) {
          static_cast<growable_device_vector<T>*>(vector)->resize_uninitialized(count);
        }} {}

  [[nodiscard]] const void* source() const noexcept { return source_; }
  [[nodiscard]] std::size_t source_count() const noexcept { return source_count_; }
  [[nodiscard]] std::size_t element_bytes() const noexcept { return element_bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< of the vector, before
  [[nodiscard]] growable_storage& storage() const noexcept { return *storage_; }
  void resize(std::size_t count) const { resize_(out_, count); }

 private:
  const void* source_;
  std::size_t source_count_;
  std::size_t element_bytes_;
  std::size_t size_;
  growable_storage* storage_;
  void* out_;
  void (*resize_)(void*, std::size_t);
};

namespace detail {

struct exchange_request {
  exchange_function function;
  std::initializer_list<exchange_array> arrays;
  const std::vector<std::size_t>* counts;
  int root;
};

exchange_result exchange_elements(const exchange_request& request, communicator& ranks,
                                  stream_ref stream);

}  // namespace detail

/// Sends the first counts[0] elements of `source` to rank 0, the next counts[1] to rank 1 and so
/// on, and appends the elements received from all ranks to `out`, in the order of ranks. A
/// collective call, see communicator.
/// - `out` grows once, and the elements arrive at its end without staging. Counts may be zero.
/// - `source`: device memory, also elements of `out`; may be changed in `stream` afterwards.
/// - Sends and receives in the order of `stream`. Waits for the other ranks, up to
///   communicator_options::limit for each step. One step is saved if every receiving `out` has room
///   for the sum of all ranks' largest counts, and no growth_options::grow_ahead.
/// Throws, and `out` has its former size and elements, on every rank:
/// - the rank at fault: std::invalid_argument if `counts` has not one entry for each rank or its
///   sum is not the source's size, if `stream` is captured, or if `stream` or `out` belongs to
///   another device than ranks.device(); std::out_of_range if the source exceeds the elements of
///   `out`; std::logic_error while `out` sleeps; as growable_device_vector::reserve;
///   std::bad_alloc; hip_error
/// - the others: rank_error, of rank_failure::remote with that rank and its message
/// - all: rank_error, of rank_failure::refused if functions or element sizes differ; as `ranks`
/// capacity() is as before too, unless the transfer failed, or growth copied or passed max_size().
template <typename T, typename Range, typename = detail::if_device_range<Range, T>>
exchange_result exchange(const Range& source, const std::vector<std::size_t>& counts,
                         growable_device_vector<T>& out, communicator& ranks, stream_ref stream) {
  return detail::exchange_elements(
      {detail::exchange_function::exchange, {{source, out}}, &counts, 0}, ranks, stream);
}

/// The same for several arrays with the same counts, as keys and values:
/// exchange({{keys, a}, {values, b}}, counts, ranks, stream). The ranks agree once for all arrays,
/// and transfer one after the other; every `out` has grown, or none.
/// Throws also: std::invalid_argument, on the rank at fault, if there is no array, if the vectors
/// differ in size(), or if one is named twice.
inline exchange_result exchange(std::initializer_list<exchange_array> arrays,
                                const std::vector<std::size_t>& counts, communicator& ranks,
                                stream_ref stream) {
  return detail::exchange_elements({detail::exchange_function::exchange, arrays, &counts, 0}, ranks,
                                   stream);
}

/// Appends the elements of every rank's `source` to the `out` of rank `root`, in the order of
/// ranks; the `out` of other ranks is unchanged. Otherwise as exchange().
template <typename T, typename Range, typename = detail::if_device_range<Range, T>>
exchange_result gather(const Range& source, growable_device_vector<T>& out, int root,
                       communicator& ranks, stream_ref stream) {
  return detail::exchange_elements(
      {detail::exchange_function::gather, {{source, out}}, nullptr, root}, ranks, stream);
}

/// Appends every rank's `source` to every rank's `out`, in the order of ranks; else as exchange().
template <typename T, typename Range, typename = detail::if_device_range<Range, T>>
exchange_result all_gather(const Range& source, growable_device_vector<T>& out, communicator& ranks,
                           stream_ref stream) {
  return detail::exchange_elements(
      {detail::exchange_function::all_gather, {{source, out}}, nullptr, 0}, ranks, stream);
}

}  // namespace hipvmm
