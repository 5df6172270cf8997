// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <utility>

#include <hipvmm/core/stream.hpp>

// The opaque struct behind hipEvent_t.
struct ihipEvent_t;

namespace hipvmm {

/// Whether an event keeps time; one that does not is cheaper to record.
enum class event_timing { disabled, enabled };

/// Owns one HIP event of one device. Movable; safe to query and record from any thread.
class event {
 public:
  /// Creates an event on the current device.
  explicit event(event_timing timing = event_timing::disabled);
  explicit event(device_ref device, event_timing timing = event_timing::disabled);
  ~event();
  event(event&& other) noexcept
      : value_{std::exchange(other.value_, nullptr)}, device_{other.device_} {}
  event& operator=(event&& other) noexcept;

  [[nodiscard]] ihipEvent_t* get() const noexcept { return value_; }
  /// Gives up ownership; the caller destroys the event with hipEventDestroy.
  [[nodiscard]] ihipEvent_t* release() noexcept { return std::exchange(value_, nullptr); }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] bool empty() const noexcept { return value_ == nullptr; }

  /// Marks the point reached when all work now in `stream` has finished; replaces an earlier mark.
  /// Pre: `stream` belongs to the event's device (HIP's rule for hipEventRecord).
  void record(stream_ref stream);
  /// Waits until the last mark is reached; returns at once when never recorded.
  void synchronize() const;
  /// Tells whether the last mark is reached; true when never recorded.
  [[nodiscard]] bool is_done() const;

  /// Time between two marks that have been reached.
  /// Throws: hip_error unless both events keep time and are done.
  [[nodiscard]] static std::chrono::duration<float, std::milli> elapsed(const event& from,
                                                                        const event& to);

 private:
  ihipEvent_t* value_;
  device_ref device_;
};

}  // namespace hipvmm
