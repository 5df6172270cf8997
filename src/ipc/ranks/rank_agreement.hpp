// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include <hipvmm/ipc/ranks/communicator.hpp>

namespace hipvmm::detail {

/// One collective call on one rank. A rank keeps its exception and reports it with its next
/// message, so that no rank waits for one that has thrown. The text of the first failed rank goes
/// to all; a failed rank throws its own exception. No message allocates memory.
class rank_agreement {
 public:
  /// Does nothing if the communicator's constructor has reserved. Throws: std::bad_alloc.
  static void reserve(communicator& ranks);

  /// `function`, `element_bytes` and `root` must be the same on all ranks. Throws: std::bad_alloc
  /// if a communicator of another library has not reserved.
  rank_agreement(communicator& ranks, const char* function, std::uint64_t element_bytes,
                 int root = 0);
  /// A bit of `element_bytes`: the rest is no size, but stands for the sizes of several arrays.
  static constexpr std::uint64_t several_arrays = std::uint64_t{1} << 63;

  /// Runs `action` unless an earlier one has failed, and keeps its exception.
  template <typename Action>
  void attempt(Action&& action) noexcept {
    if (caught_) return;
    try {
      action();
    } catch (const std::exception& error) {
      keep(error.what());
    } catch (...) {
      keep("an exception that is no std::exception");
    }
  }

  /// The first message is one of these. `room`: the elements that this rank can receive by calls
  /// that cannot fail. Throws: the exception kept by attempt(); rank_error of remote if another
  /// rank kept one, of refused if ranks call different functions; as communicator.
  void share_count(std::size_t count);
  void share_counts(std::size_t room);
  /// Call before share_counts(), which sends the counts. Pre: 0 <= rank < communicator::size().
  void set_count(std::size_t rank, std::size_t count) noexcept;
  /// Pre: the first message has been exchanged.
  [[nodiscard]] std::size_t count_of(std::size_t rank) const noexcept;
  /// Returns, the same on all ranks, whether each has room for the sum of all ranks' largest
  /// counts, so that none can fail to receive. Pre: share_counts() has returned.
  [[nodiscard]] bool all_have_room() const noexcept;

  void agree();  ///< a later message; throws as share_count() if a rank has kept a failure

 private:
  struct header {
    std::uint64_t element_bytes;
    std::uint64_t count;
    std::uint64_t most;  // the largest count that its sender has for a rank
    std::uint64_t room;
    std::array<char, 24> function;  // ends with a zero
    std::int32_t root;
    std::int32_t has_failed;
  };
  using text = std::array<char, 512>;  // ends with a zero
  static_assert(2 * sizeof(header) + sizeof(text) == communicator::agreement_bytes);

  // The communicator's memory: received first messages, sent ones, later messages.
  [[nodiscard]] std::byte* got() const noexcept { return ranks_.agreement_.data(); }
  [[nodiscard]] std::byte* sent() const noexcept { return got() + size_ * sizeof(header); }
  [[nodiscard]] std::byte* later() const noexcept { return sent() + size_ * sizeof(header); }
  [[nodiscard]] header got(std::size_t rank) const noexcept {
    header result;
    std::memcpy(&result, got() + rank * sizeof(header), sizeof(header));
    return result;
  }

  void keep(const char* what) noexcept;
  void rethrow_own() const;
  template <typename Call>
  void call_ranks(Call call) const;
  void judge_headers();
  void require_same_call() const;
  [[noreturn]] void throw_failure_of(std::size_t rank);

  communicator& ranks_;
  std::size_t size_;
  header own_{};
  std::exception_ptr caught_;
  text text_{};
};

}  // namespace hipvmm::detail
