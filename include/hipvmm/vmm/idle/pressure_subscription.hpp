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

/// Reports each time that the memory that this process can get of a device passes a watermark, in
/// either direction, and at first a mark that is passed already. A level that comes and goes
/// between two measurements is not reported. Thread-safe; several may exist.
class pressure_subscription {
 public:
  /// Called with no lock held, one call of a subscription at a time.
  /// - It may allocate, free, trim, suspend, subscribe, and end its own subscription. Crossings
  ///   that it causes are reported after it has returned.
  /// - In a request's thread it must not use the region or vector that the request changes, nor
  ///   suspend its tag.
  /// - Its HIP calls do not disturb captures of other threads. It must not use a captured stream.
  /// - The error handler gets its exceptions.
  using callback = std::function<void(const pressure_note&)>;

  /// Keeps the last 64 notes for wait(). Throws: std::invalid_argument for a fraction outside 0 to
  /// 1, an interval longer than a day and a device that does not exist; std::system_error if the
  /// system refuses a thread; hip_error; unsupported in a child of fork().
  explicit pressure_subscription(device_ref device, const pressure_options& options = {});
  /// Calls `receiver` for each note, perhaps before this returns. Throws: as above.
  pressure_subscription(device_ref device, callback receiver, const pressure_options& options = {});
  ~pressure_subscription();
  pressure_subscription(pressure_subscription&& other) noexcept;
  pressure_subscription& operator=(pressure_subscription&& other) = delete;

  /// Begins no more calls of the callback, and waits for one in another thread: two callbacks must
  /// not end each other's subscription. Does nothing when repeated and in a child of fork().
  void end() noexcept;
  /// Measures now. Throws: hip_error. This and the functions below throw std::invalid_argument
  /// after a move from the object, and unsupported in a child of fork().
  [[nodiscard]] pressure_note now();
  /// Takes the oldest note. Without one, measures and waits for one until end() or the timeout; not
  /// for a timeout of 0. Returns nothing with a callback. Throws: hip_error.
  [[nodiscard]] std::optional<pressure_note> wait(std::chrono::milliseconds timeout);
  /// Possible reasons: the device's events among the last 64 of all devices, the oldest first.
  [[nodiscard]] std::vector<memory_event> reasons() const;

 private:
  [[nodiscard]] detail::pressure_watch& live() const;

  std::shared_ptr<detail::pressure_watch> watch_;
};

}  // namespace hipvmm
