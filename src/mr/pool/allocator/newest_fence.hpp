// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "mr/pool/backend/backend.hpp"

namespace hipvmm::mr::pool {

/// The newest fence of a stream that may vanish (fence_source::may_vanish). The pool names such a
/// stream to HIP only in calls that were given the stream. So once another stream has needed its
/// memory, each free in it makes this fence first. The fence covers all that was freed in the
/// stream until the next free. Memory freed without one needs a fence for all devices. Thread-safe,
/// by a lock of its own.
class newest_fence {
 public:
  [[nodiscard]] bool is_made_by_frees() const noexcept {
    return by_frees_.load(std::memory_order_relaxed);
  }
  void note_uncovered_free() noexcept { ++without_fence_; }
  /// Whether the fence covers all that was freed.
  [[nodiscard]] bool covers_all() {
    const std::lock_guard lock{mutex_};
    return covered_ == without_fence_;
  }
  /// nullptr before the first fence; nullopt if it does not cover all that was freed: then frees
  /// make it from now on.
  [[nodiscard]] std::optional<std::shared_ptr<const fence>> get() {
    const std::lock_guard lock{mutex_};
    if (covered_ == without_fence_) return fence_;
    by_frees_.store(true, std::memory_order_relaxed);
    return std::nullopt;
  }
  /// Makes the fence by `make`, one thread at a time, so that the last one made is the newest.
  /// Returns false, and keeps the present fence, if `make` returns none. Throws: as `make`.
  template <typename Make>
  [[nodiscard]] bool renew(Make make) {
    std::shared_ptr<const fence> before;  // ends without the lock
    const std::lock_guard lock{mutex_};
    // Read before the fence is made, because memory freed meanwhile may have later work.
    const std::uint64_t covered = without_fence_;
    std::shared_ptr<const fence> made = make();
    if (made == nullptr) return false;
    before = std::exchange(fence_, std::move(made));
    covered_ = covered;
    return true;
  }
  /// The state serves another stream from now on. Pre: nothing uses memory freed in the previous
  /// stream, so the fence, which stays, has passed.
  void begin_anew() noexcept {
    const std::lock_guard lock{mutex_};
    covered_ = without_fence_;
    by_frees_ = false;
  }

 private:
  std::atomic<bool> by_frees_{false};
  std::atomic<std::uint64_t> without_fence_{0};  // frees without a fence so far
  std::mutex mutex_;
  std::shared_ptr<const fence> fence_;
  std::uint64_t covered_ = 0;  // how many of `without_fence_` the fence covers
};

}  // namespace hipvmm::mr::pool
