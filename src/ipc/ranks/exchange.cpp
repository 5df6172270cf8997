// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/exchange.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
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

/// The element size of one array; of several, a hash of their sizes in order.
std::uint64_t bytes_of(std::initializer_list<exchange_array> arrays) noexcept {
  if (arrays.size() == 1) return arrays.begin()->element_bytes();
  std::uint64_t result = arrays.size();
  for (const exchange_array& each : arrays)
    result = (result ^ each.element_bytes()) * 0x9e3779b97f4a7c15U;
  return result | rank_agreement::several_arrays;
}

class exchange_call {
 public:
  exchange_call(const exchange_request& request, communicator& ranks, stream_ref stream)
      : request_{request},
        ranks_{ranks},
        stream_{stream},
        size_{static_cast<std::size_t>(ranks.size())},
        agreement_{ranks, name_of(request.function), bytes_of(request.arrays),
                   request.function == exchange_function::gather ? request.root : 0} {}

  exchange_result run() {
    // A default stream is that of the rank's device.
    std::optional<scoped_device> scope;
    agreement_.attempt([&] {
      scope.emplace(ranks_.device());
      plan();
    });
    agreement_.share_counts(room());
    if (agreement_.all_have_room())
      take_counts();
    else
      grow();
    for (const exchange_array& each : request_.arrays) transfer(each);
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::size_t count_for(std::size_t rank) const {
    switch (request_.function) {
      case exchange_function::exchange:
        return (*request_.counts)[rank];
      case exchange_function::gather:
        return rank == static_cast<std::size_t>(request_.root) ? source_count() : 0;
      case exchange_function::all_gather:
        break;
    }
    return source_count();
  }
  [[nodiscard]] std::size_t source_count() const noexcept {
    return request_.arrays.begin()->source_count();
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
    for (const exchange_array& each : request_.arrays)
      if (sum != each.source_count())
        throw std::invalid_argument{
            name() + ": the counts sum up to " + std::to_string(sum) +
            " elements, and the source has " + std::to_string(each.source_count()) +
            "; give a source of only these elements, such as its subspan()"};
  }

  void plan() {
    if (request_.arrays.size() == 0)
      throw std::invalid_argument{name() + ": no array is named; name one"};
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
    origins_.reserve(request_.arrays.size());
    for (const exchange_array& each : request_.arrays) {
      require_array(each);
      origins_.push_back(origin_of(each));
    }
    result_.counts.resize(size_);
    result_.offsets.resize(size_ + 1);
    outgoing_.reserve(size_);
    incoming_.reserve(size_);
    for (std::size_t rank = 0; rank < size_; ++rank) agreement_.set_count(rank, count_for(rank));
  }

  void require_array(const exchange_array& array) const {
    const growable_storage& storage = array.storage();
    storage.require_awake(name().c_str());
    if (storage.device() != ranks_.device())
      throw std::invalid_argument{name() + ": the vector is on device " +
                                  std::to_string(storage.device().ordinal()) + ", and rank " +
                                  std::to_string(ranks_.rank()) + " is for memory of device " +
                                  std::to_string(ranks_.device().ordinal()) + "; make it there"};
    if (array.source_count() != 0 && array.source() == nullptr)
      throw std::invalid_argument{name() + ": the source of " +
                                  std::to_string(array.source_count()) + " elements is null"};
    static_cast<void>(bytes_for(array.source_count(), array.element_bytes()));
    for (const exchange_array& other : request_.arrays) {
      if (&other != &array && &other.storage() == &storage)
        throw std::invalid_argument{name() +
                                    ": one vector is to receive two arrays; give each its own"};
      if (other.size() != array.size())
        throw std::invalid_argument{name() + ": the vectors have " + std::to_string(array.size()) +
                                    " and " + std::to_string(other.size()) +
                                    " elements; arrays that belong together have the same number"};
    }
  }

  struct origin {
    const growable_storage* inside;  // the vector that has the source, and moves it; null if none
    std::size_t offset;              // of the source in that vector, in bytes
    std::size_t capacity;            // of the receiving vector, in bytes
  };

  [[nodiscard]] origin origin_of(const exchange_array& array) const {
    const auto source = reinterpret_cast<std::uintptr_t>(array.source());
    const std::size_t bytes = array.source_count() * array.element_bytes();
    const std::size_t capacity = array.storage().capacity_bytes();
    for (const exchange_array& each : request_.arrays) {
      const auto data = reinterpret_cast<std::uintptr_t>(each.storage().data());
      if (bytes == 0 || source < data || source - data >= each.storage().capacity_bytes()) continue;
      const std::size_t used = each.size() * each.element_bytes();
      if (source - data > used || bytes > used - (source - data))
        throw std::out_of_range{name() + ": the source ends " +
                                std::to_string(source - data + bytes - used) +
                                " bytes behind the last element of the receiving vector; the new "
                                "elements arrive there"};
      return {&each.storage(), source - data, capacity};
    }
    return {nullptr, 0, capacity};
  }

  /// Elements that this rank can receive without a call that may fail.
  [[nodiscard]] std::size_t room() const noexcept {
    constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
    if (request_.function == exchange_function::gather && request_.root != ranks_.rank())
      return unlimited;  // nothing comes
    std::size_t least = unlimited;
    for (const exchange_array& each : request_.arrays) {
      const growable_storage& storage = each.storage();
      // The preparing thread may fail.
      if (storage.options().grow_ahead.prepare != prefetch_level::off) return 0;
      least = std::min(least, storage.capacity_bytes() / each.element_bytes() - each.size());
    }
    return least;
  }

  void grow() {
    agreement_.attempt([&] { take_counts(); });
    try {
      agreement_.agree();
    } catch (...) {
      // No transfer has begun.
      for (std::size_t i = 0; i < origins_.size(); ++i)
        report_exceptions(
            [&] { request_.arrays.begin()[i].storage().undo_growth(origins_[i].capacity); });
      throw;
    }
  }

  /// Cannot fail if the vectors have room, because plan() has allocated the memory.
  void take_counts() {
    std::size_t size = request_.arrays.begin()->size();
    for (std::size_t rank = 0; rank < size_; ++rank) {
      result_.counts[rank] = agreement_.count_of(rank);
      result_.offsets[rank] = size;
      size = add_bytes(size, result_.counts[rank]);
    }
    result_.offsets[size_] = size;
    for (const exchange_array& each : request_.arrays)
      if (size != each.size()) each.resize(size);
  }

  void transfer(const exchange_array& array) {
    const std::size_t element_bytes = array.element_bytes();
    auto* const data = static_cast<std::byte*>(array.storage().data());
    const origin& its = origins_[static_cast<std::size_t>(&array - request_.arrays.begin())];
    // Growth may have moved the source.
    const auto* from = static_cast<const std::byte*>(array.source());
    if (its.inside != nullptr) from = static_cast<std::byte*>(its.inside->data()) + its.offset;
    outgoing_.clear();
    incoming_.clear();
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const int to = static_cast<int>(rank);
      const std::size_t comes = result_.counts[rank] * element_bytes;
      const std::size_t goes = count_for(rank) * element_bytes;
      if (comes != 0)
        incoming_.push_back({to, data + result_.offsets[rank] * element_bytes, comes});
      if (goes != 0) outgoing_.push_back({to, from, goes});
      if (request_.function == exchange_function::exchange) from += goes;
    }
    ranks_.transfer(outgoing_, incoming_, stream_);
  }

  const exchange_request& request_;
  communicator& ranks_;
  stream_ref stream_;
  std::size_t size_;
  rank_agreement agreement_;
  std::vector<origin> origins_;
  exchange_result result_;
  std::vector<outgoing> outgoing_;
  std::vector<incoming> incoming_;
};

}  // namespace

exchange_result exchange_elements(const exchange_request& request, communicator& ranks,
                                  stream_ref stream) {
  try {
    return exchange_call{request, ranks, stream}.run();
  } catch (...) {
    // Cannot fail, because the size does not grow.
    for (const exchange_array& each : request.arrays) each.resize(each.size());
    throw;
  }
}

}  // namespace hipvmm::detail
