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

/// The newest fence of a stream that may vanish: the pool names such a stream to HIP only in calls
/// that were given it. Once another stream has needed its memory, each free first makes this fence,
/// which covers all freed memory. Without it the memory needs a fence for all devices. Thread-safe,
/// by a lock of its own.
class newest_fence {
 public:
  [[nodiscard]] bool is_made_by_frees() const noexcept {
    return by_frees_.load(std::memory_order_relaxed);
  }
  void note_uncovered_free() noexcept { ++without_fence_; }
  [[nodiscard]] bool covers_all() {
    const std::lock_guard lock{mutex_};
    return covered_ == without_fence_;
  }
  /// nullptr before the first fence; nullopt if it does not cover all: then later frees renew it.
  [[nodiscard]] std::optional<std::shared_ptr<const fence>> get() {
    const std::lock_guard lock{mutex_};
    if (covered_ == without_fence_) return fence_;
    by_frees_.store(true, std::memory_order_relaxed);
    return std::nullopt;
  }
  /// One thread at a time, so that the last fence made is the newest. Returns false, and keeps the
  /// present fence, if `make` returns none. Throws: as `make`.
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
  /// Another stream gets the state. Pre: nothing uses memory freed in the previous stream.
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
