// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <hipvmm/compat/mpi_messages.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>

namespace hipvmm::detail {

/// From so many ranks on, collectives go in rounds. Equal on all ranks; tests lower it.
inline std::atomic<int> mpi_rounds_from{64};

/// One all_gather() or all_to_all() on one of P ranks. It has P - 1 messages each way or, in
/// rounds, the logarithm of P to base 2, rounded up: in round k = 1, 2, 4, ... each rank r sends
/// its pieces to r + k, and receives from r - k (Bruck's algorithms). A late rank holds up others
/// through the ranks between, see mpi_link.
class mpi_collective {
 public:
  mpi_collective(mpi_link& link, std::size_t bytes)
      : link_{link},
        bytes_{bytes},
        count_{static_cast<std::size_t>(link.size())},
        own_{static_cast<std::size_t>(link.rank())} {}

  void all_gather(const void* mine, void* all) {
    if (!has_many_ranks()) return directly(mine, 0, all);
    // Piece j is that of rank r - j.
    reserve(count_);
    put(0, mine, 0);
    rounds([&](std::size_t k) {
      const std::size_t pieces = std::min(k, count_ - k);
      swap_with(k, at(0), at(k), pieces);
    });
    for (std::size_t j = 0; j < count_; ++j) get(j, all, before(j));
  }
  void all_to_all(const void* mine, void* theirs) {
    constexpr std::size_t most = 1024;  // because rounds send each piece several times
    if (!has_many_ranks() || bytes_ > most) return directly(mine, bytes_, theirs);
    // Piece j is for rank r + j, and goes there by the bits of j; then it is from rank r - j.
    const std::size_t half = (count_ + 1) / 2;
    reserve(count_ + 2 * half);
    for (std::size_t j = 0; j < count_; ++j) put(j, mine, (own_ + j) % count_);
    rounds([&](std::size_t k) {
      std::size_t pieces = 0;
      for (std::size_t j = k; j < count_; ++j)
        if ((j & k) != 0) copy(at(count_ + pieces++), at(j));
      swap_with(k, at(count_), at(count_ + half), pieces);
      pieces = 0;
      for (std::size_t j = k; j < count_; ++j)
        if ((j & k) != 0) copy(at(j), at(count_ + half + pieces++));
    });
    for (std::size_t j = 0; j < count_; ++j) get(j, theirs, before(j));
  }

 private:
  [[nodiscard]] bool has_many_ranks() const { return link_.size() >= mpi_rounds_from; }
  [[nodiscard]] std::size_t before(std::size_t j) const { return (own_ + count_ - j) % count_; }

  // Messages may outlive a failure, so they use memory of their own.
  void reserve(std::size_t pieces) { memory_.resize(add_bytes(bytes_for(pieces, bytes_), 1)); }
  [[nodiscard]] std::byte* at(std::size_t index) { return memory_.data() + index * bytes_; }
  void copy(void* to, const void* from) const {
    if (bytes_ != 0) std::memcpy(to, from, bytes_);
  }
  void put(std::size_t index, const void* mine, std::size_t piece) {
    if (bytes_ != 0)
      std::memcpy(at(index), static_cast<const std::byte*>(mine) + piece * bytes_, bytes_);
  }
  void get(std::size_t index, void* theirs, std::size_t piece) {
    if (bytes_ != 0)
      std::memcpy(static_cast<std::byte*>(theirs) + piece * bytes_, at(index), bytes_);
  }

  template <typename Action>
  void with_messages(Action action) {
    try {
      action();
    } catch (...) {
      mpi_link::cancel(messages_);
      keep_until_exit(std::move(memory_));
      throw;
    }
  }
  template <typename Round>
  void rounds(Round round) {
    with_messages([&] {
      for (std::size_t k = 1; k < count_; k *= 2) round(k);
    });
  }
  void swap_with(std::size_t k, std::byte* sent, std::byte* received, std::size_t pieces) {
    messages_.clear();
    link_.post(messages_, static_cast<int>(before(k)), received, pieces * bytes_, true);
    link_.post(messages_, static_cast<int>((own_ + k) % count_), sent, pieces * bytes_, false);
    link_.wait_in_round(messages_);
  }

  /// Sends piece r of `mine`, which begins at byte r * stride, to rank r.
  void directly(const void* mine, std::size_t stride, void* theirs) {
    const std::size_t sent = stride == 0 ? 1 : count_;
    reserve(add_bytes(sent, count_));
    std::byte* const from = at(sent);
    if (bytes_ != 0) std::memcpy(at(0), mine, sent * bytes_);
    with_messages([&] {
      for (std::size_t k = 1; k < count_; ++k)
        link_.post(messages_, static_cast<int>(before(k)), from + before(k) * bytes_, bytes_, true);
      for (std::size_t k = 1; k < count_; ++k) {
        const std::size_t target = (own_ + k) % count_;
        link_.post(messages_, static_cast<int>(target), at(0) + target * stride, bytes_, false);
      }
      link_.wait_for(messages_);
    });
    if (bytes_ == 0) return;
    copy(from + own_ * bytes_, at(0) + own_ * stride);
    std::memcpy(theirs, from, count_ * bytes_);
  }

  mpi_link& link_;
  std::size_t bytes_;
  std::size_t count_;
  std::size_t own_;
  std::vector<std::byte> memory_;
  std::vector<mpi_message> messages_;
};

}  // namespace hipvmm::detail
