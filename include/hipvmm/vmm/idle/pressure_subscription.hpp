// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/idle/memory_pressure.hpp>

namespace hipvmm {

namespace detail {
class pressure_watch;
}  // namespace detail

/// Reports when the memory that this process can get of a device passes a watermark, in either
/// direction: once for each crossing, and at first if a mark is passed already. Any thread may use
/// it. Several may exist. Between two looks a level that came and went is not reported.
class pressure_subscription {
 public:
  /// Called with no lock of the library held, one call of a subscription at a time.
  /// - It may allocate, free, trim, suspend, subscribe, and end its own subscription. If it causes
  ///   crossings, the library's thread reports them when it has returned.
  /// - In the thread of a request it must not use the region or vector that the request changes,
  ///   nor suspend a tag of that.
  /// - Its HIP calls do not disturb stream captures of other threads. It enqueues nothing in a
  ///   stream that is captured.
  /// - Its exceptions are reported to the error handler.
  using callback = std::function<void(const pressure_note&)>;

  /// Keeps the last 64 notes for wait().
  /// Throws: std::invalid_argument for a fraction outside 0 to 1, an interval longer than a day and
  /// a device that there is not; std::system_error if the system refuses a thread; hip_error;
  /// unsupported in a child of fork().
  explicit pressure_subscription(device_ref device, const pressure_options& options = {});
  /// Calls `receiver` for each, the first perhaps before it returns.
  /// Throws: as above.
  pressure_subscription(device_ref device, callback receiver, const pressure_options& options = {});
  /// Calls end().
  ~pressure_subscription();
  pressure_subscription(pressure_subscription&& other) noexcept;
  pressure_subscription& operator=(pressure_subscription&& other) = delete;

  /// Ends it: no call of the callback begins any more. Waits for one that runs in another thread;
  /// two callbacks must not end each other's subscription in that way. Does nothing the second
  /// time, and in a child of fork().
  void end() noexcept;
  /// Measures, and returns what holds now. Throws: hip_error; as the others below
  /// std::invalid_argument after a move from it, and unsupported in a child.
  [[nodiscard]] pressure_note now();
  /// Takes the oldest note that was not taken. Measures and waits for one if there is none, until
  /// end() or the time is over; not for a timeout of 0. With a callback there is none.
  /// Throws: hip_error.
  [[nodiscard]] std::optional<pressure_note> wait(std::chrono::milliseconds timeout);
  /// The events of the device that may be reasons, the oldest first: of the last 64 of all devices.
  [[nodiscard]] std::vector<memory_event> reasons() const;

 private:
  [[nodiscard]] detail::pressure_watch& live() const;

  std::shared_ptr<detail::pressure_watch> watch_;
};

}  // namespace hipvmm
