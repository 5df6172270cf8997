// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>

#include <hipvmm/vmm/idle/pressure_subscription.hpp>
#include "container/container_test.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test::pressure_marks {

using bytes_vector = growable_device_vector<char>;
using std::chrono::milliseconds;

inline constexpr milliseconds longest{10'000};
/// Long enough for the library's thread, if no note is expected.
inline constexpr milliseconds a_moment{20};

/// Bytes that the process holds when it holds nothing.
inline std::size_t held_bytes(device_ref device = first_device) {
  release_idle_memory();
  return detail::created_chunk_bytes(device);
}

/// A limit of 64 MiB beyond the memory held; levels begin at 32, 16 and 8 MiB.
inline pressure_options within_64(device_ref device = first_device) {
  return pressure_options{.low = {0, 32 * MiB},
                          .high = {0, 16 * MiB},
                          .critical = {0, 8 * MiB},
                          .hysteresis = 0,
                          .limit = held_bytes(device) + 64 * MiB,
                          .device_memory = false};
}

inline pressure_options in_request(pressure_options options = within_64()) {
  options.delivery = pressure_delivery::requesting_thread;
  return options;
}

inline bytes_vector vector_of(std::size_t bytes, device_ref device = first_device) {
  bytes_vector made{device, {.step_limit = 0}};
  made.resize_uninitialized(bytes);
  return made;
}

/// The notes of a callback, with the threads that called.
class noted {
 public:
  void operator()(const pressure_note& note) {
    const std::lock_guard lock{mutex_};
    notes_.emplace_back(note, std::this_thread::get_id());
    came_.notify_all();
  }
  /// Waits for so many.
  bool has(std::size_t count) {
    std::unique_lock lock{mutex_};
    return came_.wait_for(lock, longest, [&] { return notes_.size() >= count; });
  }
  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock{mutex_};
    return notes_.size();
  }
  [[nodiscard]] std::pair<pressure_note, std::thread::id> at(std::size_t index) {
    const std::lock_guard lock{mutex_};
    return notes_.at(index);
  }
  [[nodiscard]] pressure_subscription::callback callback() {
    return [this](const pressure_note& note) { (*this)(note); };
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::pair<pressure_note, std::thread::id>> notes_;
};

}  // namespace hipvmm::test::pressure_marks
