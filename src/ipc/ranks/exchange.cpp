// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/exchange.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "ipc/ranks/rank_agreement.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {
namespace {

const char* name_of(exchange_function function) noexcept {
  return function == exchange_function::exchange ? "exchange"
         : function == exchange_function::gather ? "gather"
                                                 : "all_gather";
}

/// One call, on one rank.
class exchange_call {
 public:
  exchange_call(const exchange_request& request, communicator& ranks, stream_ref stream)
      : request_{request},
        ranks_{ranks},
        stream_{stream},
        size_{static_cast<std::size_t>(ranks.size())},
        agreement_{ranks, name_of(request.function), request.element_bytes,
                   request.function == exchange_function::gather ? request.root : 0} {}

  exchange_result run(const std::function<void(std::size_t)>& resize) {
    // The default streams are those of the rank's device.
    std::optional<scoped_device> scope;
    agreement_.attempt([&] {
      scope.emplace(ranks_.device());
      plan();
    });
    agreement_.share_counts(room());
    if (agreement_.all_have_room())
      take_counts(resize);
    else
      grow(resize);
    ranks_.transfer(outgoing_, incoming_, stream_);
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::size_t count_for(std::size_t rank) const {
    switch (request_.function) {
      case exchange_function::exchange:
        return (*request_.counts)[rank];
      case exchange_function::gather:
        return rank == static_cast<std::size_t>(request_.root) ? request_.source_count : 0;
      case exchange_function::all_gather:
        break;
    }
    return request_.source_count;
  }

  [[nodiscard]] std::string name() const { return std::string{name_of(request_.function)} + "()"; }

  void require_counts() const {
    const std::vector<std::size_t>& counts = *request_.counts;
    if (counts.size() != size_)
      throw std::invalid_argument{name() + ": " + std::to_string(counts.size()) + " counts for " +
                                  std::to_string(size_) +
                                  " ranks; give one for each rank, zero for nothing"};
    std::size_t sum = 0;
    for (const std::size_t each : counts) sum = add_bytes(sum, each);
    if (sum != request_.source_count)
      throw std::invalid_argument{name() + ": the counts sum up to " + std::to_string(sum) +
                                  " elements, and the source has " +
                                  std::to_string(request_.source_count) +
                                  "; give a source of only these elements, such as its subspan()"};
  }

  /// Checks the arguments of this rank, and plans the pieces to send.
  void plan() {
    if (request_.function == exchange_function::exchange) require_counts();
    if (request_.function == exchange_function::gather &&
        (request_.root < 0 || request_.root >= ranks_.size()))
      throw std::invalid_argument{name() + ": rank " + std::to_string(request_.root) +
                                  " is not one of " + std::to_string(size_) + " ranks"};
    if (stream_.is_capturing())
      throw std::invalid_argument{
          name() +
          " in a stream that is being captured: how much comes is known only when it is "
          "called, so that a graph cannot repeat it; name a stream that is not captured"};
    const std::optional<device_ref> device = device_of_stream(stream_);
    if (device && *device != ranks_.device())
      throw std::invalid_argument{
          name() + ": the stream is of device " + std::to_string(device->ordinal()) +
          ", and rank " + std::to_string(ranks_.rank()) + " is for memory of device " +
          std::to_string(ranks_.device().ordinal()) + "; name a stream of that"};
    request_.storage->require_awake(name().c_str());
    if (request_.storage->device() != ranks_.device())
      throw std::invalid_argument{name() + ": the vector is on device " +
                                  std::to_string(request_.storage->device().ordinal()) +
                                  ", and rank " + std::to_string(ranks_.rank()) +
                                  " is for memory of device " +
                                  std::to_string(ranks_.device().ordinal()) + "; make it there"};
    if (request_.source_count != 0 && request_.source == nullptr)
      throw std::invalid_argument{name() + ": the source of " +
                                  std::to_string(request_.source_count) + " elements is null"};
    static_cast<void>(bytes_for(request_.source_count, request_.element_bytes));
    find_source();
    result_.counts.resize(size_);
    result_.offsets.resize(size_ + 1);
    outgoing_.reserve(size_);
    incoming_.reserve(size_);
    for (std::size_t rank = 0; rank < size_; ++rank) agreement_.set_count(rank, count_for(rank));
  }

  /// A source in the vector moves with it.
  void find_source() {
    const auto source = reinterpret_cast<std::uintptr_t>(request_.source);
    const auto data = reinterpret_cast<std::uintptr_t>(request_.storage->data());
    const std::size_t used = request_.size * request_.element_bytes;
    if (request_.source_count == 0 || source < data ||
        source - data >= request_.storage->capacity_bytes())
      return;
    const std::size_t bytes = request_.source_count * request_.element_bytes;
    if (source - data > used || bytes > used - (source - data))
      throw std::out_of_range{name() + ": the source ends " +
                              std::to_string(source - data + bytes - used) +
                              " bytes behind the last element of the receiving vector; the new "
                              "elements arrive there"};
    is_inside_ = true;
    source_offset_ = source - data;
  }

  [[nodiscard]] const std::byte* source() const noexcept {
    return is_inside_ ? static_cast<const std::byte*>(request_.storage->data()) + source_offset_
                      : static_cast<const std::byte*>(request_.source);
  }

  /// Elements that this rank can receive without a call that may fail.
  [[nodiscard]] std::size_t room() const noexcept {
    constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
    if (request_.function == exchange_function::gather && request_.root != ranks_.rank())
      return unlimited;  // nothing comes
    // The preparing thread may fail.
    if (request_.storage->options().grow_ahead.prepare != prefetch_level::off) return 0;
    return request_.storage->capacity_bytes() / request_.element_bytes - request_.size;
  }

  void grow(const std::function<void(std::size_t)>& resize) {
    const std::size_t capacity = request_.storage->capacity_bytes();
    agreement_.attempt([&] { take_counts(resize); });
    try {
      agreement_.agree();
    } catch (...) {
      // No transfer has begun.
      report_exceptions([&] { request_.storage->undo_growth(capacity); });
      throw;
    }
  }

  /// Plans the transfer. Cannot fail if the vector has room, because plan() has allocated the
  /// memory.
  void take_counts(const std::function<void(std::size_t)>& resize) {
    std::size_t size = request_.size;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      result_.counts[rank] = agreement_.count_of(rank);
      result_.offsets[rank] = size;
      size = add_bytes(size, result_.counts[rank]);
    }
    result_.offsets[size_] = size;
    if (size != request_.size) resize(size);
    const std::size_t bytes = request_.element_bytes;
    auto* const data = static_cast<std::byte*>(request_.storage->data());
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (result_.counts[rank] == 0) continue;
      incoming_.push_back({static_cast<int>(rank), data + result_.offsets[rank] * bytes,
                           result_.counts[rank] * bytes});
    }
    plan_outgoing();
  }

  /// Growth may have moved the source.
  void plan_outgoing() {
    const std::byte* from = source();
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const std::size_t bytes = count_for(rank) * request_.element_bytes;
      if (bytes != 0) outgoing_.push_back({static_cast<int>(rank), from, bytes});
      if (request_.function == exchange_function::exchange) from += bytes;
    }
  }

  const exchange_request& request_;
  communicator& ranks_;
  stream_ref stream_;
  std::size_t size_;
  rank_agreement agreement_;
  bool is_inside_ = false;
  std::size_t source_offset_ = 0;
  exchange_result result_;
  std::vector<outgoing> outgoing_;
  std::vector<incoming> incoming_;
};

}  // namespace

exchange_result exchange_elements(const exchange_request& request, communicator& ranks,
                                  stream_ref stream,
                                  const std::function<void(std::size_t)>& resize) {
  return exchange_call{request, ranks, stream}.run(resize);
}

}  // namespace hipvmm::detail
