// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "ipc/socket.hpp"

namespace hipvmm::detail {

struct byte_range {
  std::uint64_t begin = 0;  // offsets of bytes
  std::uint64_t end = 0;    // behind the last byte

  friend bool operator==(const byte_range&, const byte_range&) = default;
  [[nodiscard]] byte_range within(std::uint64_t low, std::uint64_t high) const noexcept {
    const std::uint64_t from = std::max(begin, low);
    return {from, std::max(from, std::min(end, high))};
  }
};

struct publication_counters {
  std::atomic<std::uint64_t> begin;  ///< of the bytes that may be read
  std::atomic<std::uint64_t> end;
  std::atomic<std::uint64_t> changes;  ///< of the two before; odd while they change
  std::atomic<std::uint64_t> epoch;    ///< of the list of chunks: it has changed if this is new
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
inline constexpr std::size_t state_page_bytes = 4096;

/// A sealed memfd: importers can change neither its contents nor its size.
class publication_page {
 public:
  /// Throws: out_of_memory without descriptors; ipc_error `system`, also before Linux 5.1.
  publication_page();
  ~publication_page();
  publication_page& operator=(publication_page&&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }
  void set_epoch(std::uint64_t epoch) noexcept {
    state_->epoch.store(epoch, std::memory_order_release);
  }
  /// Sets the readable bytes as of announcement `number`, unless a later one has been set.
  void set_range(std::uint64_t number, byte_range readable) noexcept;
  /// Limits the readable bytes to [low, high), also for earlier announcements still to come.
  void cut(std::uint64_t number, std::uint64_t low, std::uint64_t high) noexcept;

 private:
  void store(byte_range readable) noexcept;  // with the lock

  owned_descriptor descriptor_;
  publication_counters* state_ = nullptr;
  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::uint64_t cut_number_ = 0;
  byte_range cut_{};  // for announcements before cut_number_
  byte_range readable_{};
};

class state_view {
 public:
  /// Throws: ipc_error `malformed` if the owner could still shrink the page.
  explicit state_view(int descriptor);
  ~state_view();
  state_view& operator=(state_view&&) = delete;

  /// The readable bytes. Nothing if the owner changes them, or died while it did.
  [[nodiscard]] std::optional<byte_range> readable() const noexcept;
  [[nodiscard]] std::uint64_t epoch() const noexcept {
    return state_->epoch.load(std::memory_order_acquire);
  }

 private:
  const publication_counters* state_ = nullptr;
};

}  // namespace hipvmm::detail
