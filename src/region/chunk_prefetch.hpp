// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include "core/background_task.hpp"
#include "region/backing.hpp"

namespace hipvmm::detail {

/// Has a background thread make the next chunk of a region.
class chunk_prefetch {
 public:
  struct order {
    std::size_t offset;
    std::size_t bytes;
    prefetch_level how;
    memory_location where;
  };

  /// `make` runs in the thread and reads the region: cancel_or_wait() before the region changes.
  explicit chunk_prefetch(std::function<backing_map(const order&)> make) : make_{std::move(make)} {}

  /// Ends offer() too, and waits for give(). Returns the bytes of the ready chunk.
  std::size_t cancel_or_wait() noexcept {
    task_.cancel_or_wait();
    const std::lock_guard lock{mutex_};
    is_offered_ = false;
    return ready_.empty() ? 0 : ready_.begin()->second.bytes();
  }
  /// Whether a chunk may be ordered: none is under way or ready, and none has failed since allow().
  [[nodiscard]] bool is_idle() const noexcept {
    if (task_.pending()) return false;
    const std::lock_guard lock{mutex_};
    return ready_.empty() && may_start_;
  }
  /// Pre: is_idle().
  void submit(const order& wanted) noexcept {
    order_ = wanted;
    if (!task_.submit()) note_failure();
  }
  void allow() noexcept { may_start_ = true; }
  /// Zero also while another thread has the lock. Any thread.
  [[nodiscard]] std::size_t offered_bytes() const noexcept {
    const std::unique_lock lock{mutex_, std::try_to_lock};
    return !lock || !is_offered_ || ready_.empty() ? 0 : ready_.begin()->second.bytes();
  }
  /// Zero also while another thread has the lock.
  [[nodiscard]] std::size_t ready_bytes() const noexcept {
    const std::unique_lock lock{mutex_, std::try_to_lock};
    return !lock || task_.pending() || ready_.empty() ? 0 : ready_.begin()->second.bytes();
  }
  /// Lets give() take the ready chunk.
  void offer() noexcept {
    const std::lock_guard lock{mutex_};
    is_offered_ = true;
  }
  /// Calls `take(chunks)` if a chunk is ready and offered, as every new one is. Any thread.
  template <typename Take>
  void give(Take take) {
    const std::lock_guard lock{mutex_};
    if (is_offered_ && !ready_.empty()) take(ready_);
  }
  [[nodiscard]] std::size_t failures() const noexcept { return failures_; }

  /// The ready chunk, mapped or not, or nothing. No size of the region counts it. Pre: after
  /// cancel_or_wait() and before offer(), or is_idle(), or in `make`.
  [[nodiscard]] backing_map& ready() noexcept { return ready_; }
  [[nodiscard]] const backing_map& ready() const noexcept { return ready_; }
  /// The order that cancel_or_wait() cancelled. Pre: as ready().
  std::optional<order> take_cancelled() noexcept { return std::exchange(order_, std::nullopt); }

 private:
  void run() noexcept {
    try {
      backing_map made = make_(*order_);
      order_.reset();
      const std::lock_guard lock{mutex_};
      ready_ = std::move(made);
      is_offered_ = true;
    } catch (...) {
      // The commit that needs the chunk meets the same failure, or finds it gone.
      note_failure();
    }
  }
  void note_failure() noexcept {
    order_.reset();
    may_start_ = false;
    ++failures_;
  }

  std::function<backing_map(const order&)> make_;
  std::optional<order> order_;  // until its chunk is ready
  backing_map ready_;
  bool is_offered_ = false;   // give() may take the chunk: the owner does not use it
  mutable std::mutex mutex_;  // of ready_ and is_offered_
  bool may_start_ = true;
  std::atomic<std::size_t> failures_{0};
  background_task task_{[this] { run(); }};  // last: it ends first
};

}  // namespace hipvmm::detail
