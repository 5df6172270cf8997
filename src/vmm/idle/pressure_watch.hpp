// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/idle/memory_pressure.hpp>
#include "core/owner_process.hpp"

namespace hipvmm::detail {

struct pressure_bound {
  exhausted cause;
  std::size_t total = 0;  // 0: no bound
  std::size_t free = 0;
  pressure_level level = pressure_level::none;
};

class pressure_watch {
 public:
  using callback = std::function<void(const pressure_note&)>;

  pressure_watch(device_ref of, callback to, const pressure_options& chosen);

  /// May be called under any lock.
  void note_change(std::int64_t bytes) noexcept {
    const std::lock_guard lock{mutex_};
    std::size_t& free = bounds_[0].free;
    if (bytes < 0)
      free += static_cast<std::size_t>(-bytes);
    else
      free -= std::min(free, static_cast<std::size_t>(bytes));
    ++changes_;
    is_stale_ = true;
  }
  /// Throws: hip_error.
  void look(bool measures);
  [[nodiscard]] bool has_notes() const noexcept {
    const std::lock_guard lock{mutex_};
    return !notes_.empty();
  }
  /// Calls the callback, or wakes those who wait. Returns whether notes are left for another call.
  [[nodiscard]] bool deliver() noexcept;
  void end() noexcept;
  [[nodiscard]] pressure_note now();
  [[nodiscard]] std::optional<pressure_note> take(std::chrono::milliseconds timeout);

  [[nodiscard]] bool is_stale() const noexcept { return is_stale_; }
  [[nodiscard]] bool calls_in_request() const noexcept {
    return call_ && options.delivery == pressure_delivery::requesting_thread;
  }
  [[nodiscard]] std::chrono::steady_clock::time_point due() const noexcept {
    const std::lock_guard lock{mutex_};
    return options.interval.count() == 0 ? std::chrono::steady_clock::time_point::max()
                                         : looked_at_ + options.interval;
  }

  const device_ref device;
  const pressure_options options;
  const owner_process process;
  std::atomic<bool> is_for_thread{false};  // the library's thread looks next

 private:
  void measure(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] pressure_note make_note(std::unique_lock<std::mutex>& lock, std::uint64_t& event);
  [[nodiscard]] pressure_level level() const noexcept {
    pressure_level highest = pressure_level::none;
    for (const pressure_bound& each : bounds_) highest = std::max(highest, each.level);
    return highest;
  }

  const callback call_;
  std::mutex turn_;           // HIP is called with it
  mutable std::mutex mutex_;  // guards the rest; under it only the ring of changes is locked
  std::condition_variable changed_;
  std::array<pressure_bound, 3> bounds_{pressure_bound{exhausted::device_memory},
                                        pressure_bound{exhausted::budget},
                                        pressure_bound{exhausted::limit}};
  std::uint64_t changes_ = 0;
  std::atomic<bool> is_stale_{true};
  std::chrono::steady_clock::time_point measured_at_{};
  std::chrono::steady_clock::time_point looked_at_{};
  pressure_level reported_ = pressure_level::none;
  std::uint64_t reported_event_ = 0;
  std::deque<pressure_note> notes_;
  std::thread::id caller_{};  // the thread that runs the callback
  bool has_ended_ = false;
};

}  // namespace hipvmm::detail
