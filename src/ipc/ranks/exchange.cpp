// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/exchange.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {
namespace {

/// What a rank sends to each of the others first.
struct exchange_header {
  std::uint64_t element_bytes;
  std::uint64_t count;  ///< elements for the rank that receives this
  std::int32_t function;
  std::int32_t root;
};

/// Why a rank cannot do its part, as the others get it.
struct exchange_failure {
  std::int32_t has_failed;
  std::array<char, 508> text;  ///< ends with a zero
};

std::string function_text(std::int32_t function) {
  switch (static_cast<exchange_function>(function)) {
    case exchange_function::exchange:
      return "exchange";
    case exchange_function::gather:
      return "gather";
    case exchange_function::all_gather:
      return "all_gather";
  }
  return "function " + std::to_string(function);
}

std::string function_text(exchange_function function) {
  return function_text(static_cast<std::int32_t>(function));
}

/// The first failure of this rank.
class own_failure {
 public:
  /// Runs `action` unless one before has failed.
  template <typename Action>
  void attempt(Action action) {
    if (caught_) return;
    try {
      action();
    } catch (const std::exception& error) {
      caught_ = std::current_exception();
      std::strncpy(text_.data(), error.what(), text_.size() - 1);
    } catch (...) {
      caught_ = std::current_exception();
      std::strncpy(text_.data(), "an exception that is no std::exception", text_.size() - 1);
    }
  }
  [[nodiscard]] bool has_failed() const noexcept { return caught_ != nullptr; }
  void rethrow_if_any() const {
    if (caught_) std::rethrow_exception(caught_);
  }
  [[nodiscard]] exchange_failure message() const noexcept { return {has_failed() ? 1 : 0, text_}; }

 private:
  std::exception_ptr caught_;
  std::array<char, 508> text_{};
};

/// One call, on one rank.
class exchange_call {
 public:
  exchange_call(const exchange_request& request, communicator& ranks, stream_ref stream)
      : request_{request},
        ranks_{ranks},
        stream_{stream},
        size_{static_cast<std::size_t>(ranks.size())},
        sent_(size_),
        got_(size_),
        flags_(size_) {}

  exchange_result run(const std::function<void(std::size_t)>& resize) {
    // The default streams are those of the rank's device.
    std::optional<scoped_device> scope;
    failure_.attempt([&] {
      scope.emplace(ranks_.device());
      plan();
    });
    exchange_counts();
    const bool receives =
        request_.function != exchange_function::gather || request_.root == ranks_.rank();
    const std::size_t capacity = request_.storage->capacity_bytes();
    exchange_result result;
    failure_.attempt([&] {
      result = plan_result();
      if (receives) make_room(result.offsets.back(), resize);
    });
    try {
      agree();
    } catch (...) {
      // No transfer has begun.
      if (receives) report_exceptions([&] { request_.storage->undo_growth(capacity); });
      throw;
    }
    ranks_.transfer(outgoing_, incoming_, stream_);
    return result;
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

  [[nodiscard]] std::string name() const { return function_text(request_.function) + "()"; }

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
                                  "; give a source of just what is sent, such as its subspan()"};
  }

  /// Checks what this rank was called with, and plans what it sends.
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
    for (std::size_t rank = 0; rank < size_; ++rank) sent_[rank].count = count_for(rank);
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
                              " bytes behind the last element of the vector that receives, where "
                              "elements are received"};
    is_inside_ = true;
    source_offset_ = source - data;
  }

  [[nodiscard]] const std::byte* source() const noexcept {
    return is_inside_ ? static_cast<const std::byte*>(request_.storage->data()) + source_offset_
                      : static_cast<const std::byte*>(request_.source);
  }

  /// Sends to each rank how much it gets. All see then what all have called.
  void exchange_counts() {
    for (exchange_header& each : sent_) {
      each.element_bytes = request_.element_bytes;
      each.function = static_cast<std::int32_t>(request_.function);
      each.root = request_.function == exchange_function::gather ? request_.root : 0;
      if (failure_.has_failed()) each.count = 0;
    }
    call_ranks([&] { ranks_.all_to_all(sent_.data(), got_.data(), sizeof(exchange_header)); });
    require_same_call();
  }

  void require_same_call() const {
    for (std::size_t rank = 1; rank < size_; ++rank) {
      const exchange_header& first = got_.front();
      const exchange_header& its = got_[rank];
      const auto refuse = [&](const std::string& one, const std::string& other) {
        failure_.rethrow_if_any();
        throw rank_error{rank_failure::refused, static_cast<int>(rank),
                         "rank " + std::to_string(rank) + " called " + one + ", and rank 0 " +
                             other + "; all ranks make the same calls in the same order"};
      };
      if (its.function != first.function)
        refuse(function_text(its.function) + "()", function_text(first.function) + "()");
      if (its.element_bytes != first.element_bytes)
        refuse(name() + " with elements of " + std::to_string(its.element_bytes) + " bytes",
               "with elements of " + std::to_string(first.element_bytes) + " bytes");
      if (its.root != first.root)
        refuse(name() + " to rank " + std::to_string(its.root),
               "to rank " + std::to_string(first.root));
    }
  }

  [[nodiscard]] exchange_result plan_result() const {
    exchange_result result;
    result.counts.reserve(size_);
    result.offsets.reserve(size_ + 1);
    std::size_t size = request_.size;
    for (const exchange_header& each : got_) {
      result.counts.push_back(each.count);
      result.offsets.push_back(size);
      size = add_bytes(size, each.count);
    }
    result.offsets.push_back(size);
    return result;
  }

  void make_room(std::size_t size, const std::function<void(std::size_t)>& resize) {
    if (size != request_.size) resize(size);
    const std::size_t bytes = request_.element_bytes;
    auto* to = static_cast<std::byte*>(request_.storage->data()) + request_.size * bytes;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (got_[rank].count == 0) continue;
      incoming_.push_back({static_cast<int>(rank), to, got_[rank].count * bytes});
      to += got_[rank].count * bytes;
    }
  }

  /// Returns where every rank has the memory for what it receives.
  void agree() {
    failure_.attempt([&] {
      const std::byte* from = source();
      for (std::size_t rank = 0; rank < size_; ++rank) {
        const std::size_t bytes = sent_[rank].count * request_.element_bytes;
        if (bytes != 0) outgoing_.push_back({static_cast<int>(rank), from, bytes});
        if (request_.function == exchange_function::exchange) from += bytes;
      }
    });
    const std::int32_t flag = failure_.has_failed() ? 1 : 0;
    call_ranks([&] { ranks_.all_gather(&flag, flags_.data(), sizeof(flag)); });
    for (const std::int32_t each : flags_)
      if (each != 0) throw_first_failure();
  }

  /// On all ranks, where one has failed.
  [[noreturn]] void throw_first_failure() {
    std::vector<exchange_failure> all(size_);
    const exchange_failure mine = failure_.message();
    call_ranks([&] { ranks_.all_gather(&mine, all.data(), sizeof(mine)); });
    failure_.rethrow_if_any();
    for (std::size_t rank = 0; rank < size_; ++rank)
      if (all[rank].has_failed != 0)
        throw rank_error{rank_failure::remote, static_cast<int>(rank),
                         "rank " + std::to_string(rank) + " could not take part in " + name() +
                             ": " + all[rank].text.data()};
    throw rank_error{rank_failure::remote, -1, "a rank could not take part in " + name()};
  }

  /// What a rank did wrong itself says more than what came of it.
  template <typename Call>
  void call_ranks(Call call) const {
    try {
      call();
    } catch (...) {
      failure_.rethrow_if_any();
      throw;
    }
  }

  const exchange_request& request_;
  communicator& ranks_;
  stream_ref stream_;
  std::size_t size_;
  own_failure failure_;
  bool is_inside_ = false;
  std::size_t source_offset_ = 0;
  std::vector<exchange_header> sent_;
  std::vector<exchange_header> got_;
  std::vector<std::int32_t> flags_;
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
