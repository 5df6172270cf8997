// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include <hipvmm/core/owner_process.hpp>
#include <hipvmm/runtime/stream.hpp>

struct ihipEvent_t;

namespace hipvmm {
namespace detail {

class event_recording;
class event_use;
struct recorded_points;
void record_without_notify(const event& recorded, stream_ref stream);
void make_stream_wait(stream_ref waiter, const event& event);

/// The stream order of an event's last recording, if it is known. It has no lock: like the event,
/// it is moved or destroyed only while no other thread uses it.
class recorded_order {
 public:
  recorded_order() noexcept = default;
  recorded_order(recorded_order&& other) noexcept { swap(other); }
  recorded_order& operator=(recorded_order&&) = delete;
  ~recorded_order() {
    if (points_.load(std::memory_order_relaxed) != nullptr) forget_points();
  }
  void swap(recorded_order& other) noexcept {
    exchange(state_, other.state_);
    exchange(points_, other.points_);
  }

  /// Other code may record the event unseen from now on.
  void expose_handle() const noexcept {
    if ((state_.load(std::memory_order_relaxed) & handle_exposed) == 0)
      state_.fetch_or(handle_exposed);
  }

 private:
  friend class event_recording;
  friend class event_use;
  friend void record_without_notify(const event& recorded, stream_ref stream);

  // Fields of `state_`: a flag, the threads that record the event now, the recordings begun.
  static constexpr std::uint64_t handle_exposed = 1;
  static constexpr std::uint64_t one_under_way = 2;
  static constexpr std::uint64_t one_recording = std::uint64_t{1} << 16U;
  static constexpr std::uint64_t any_under_way = one_recording - one_under_way;

  template <typename T>
  static void exchange(std::atomic<T>& a, std::atomic<T>& b) noexcept {
    const T before = a.load(std::memory_order_relaxed);
    a.store(b.load(std::memory_order_relaxed), std::memory_order_relaxed);
    b.store(before, std::memory_order_relaxed);
  }
  void forget_points() noexcept;

  mutable std::atomic<std::uint64_t> state_{0};
  mutable std::atomic<recorded_points*> points_{nullptr};
};

}  // namespace detail

/// Without timestamps an event is cheaper to record.
enum class event_timing { disabled, enabled };

/// Owns one HIP event of one device. Movable; safe to query and record from any thread. If it was
/// moved from or released, calls that need the event throw std::invalid_argument.
class event {
 public:
  /// Uses the current device. Throws: out_of_memory, of 0 bytes, if HIP reports it; hip_error.
  explicit event(event_timing timing = event_timing::disabled);
  explicit event(device_ref device, event_timing timing = event_timing::disabled);
  ~event();
  event(event&& other) noexcept
      : value_{std::exchange(other.value_, nullptr)},
        device_{other.device_},
        process_{other.process_},
        order_{std::move(other.order_)} {}
  event& operator=(event&& other) noexcept;

  /// The holder of the handle may record the event unseen. So from the first call on pools learn no
  /// order from this event.
  [[nodiscard]] ihipEvent_t* get() const noexcept {
    order_.expose_handle();
    return value_;
  }
  /// Releases ownership; the caller destroys the event with hipEventDestroy.
  [[nodiscard]] ihipEvent_t* release() noexcept { return std::exchange(value_, nullptr); }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] bool empty() const noexcept { return value_ == nullptr; }

  /// Marks the end of the work now in `stream`, in place of an earlier mark.
  /// Pre: `stream` belongs to the event's device (HIP's rule for hipEventRecord).
  void record(stream_ref stream);
  /// Waits for the last record; returns at once without one.
  void synchronize() const;
  /// True without a record.
  [[nodiscard]] bool is_done() const;

  /// Throws: hip_error unless both events record timestamps and are done.
  [[nodiscard]] static std::chrono::duration<float, std::milli> elapsed(const event& from,
                                                                        const event& to);

 private:
  friend class detail::event_recording;
  friend class detail::event_use;
  friend void detail::record_without_notify(const event& recorded, stream_ref stream);

  ihipEvent_t* value_;
  device_ref device_;
  detail::owner_process process_;
  detail::recorded_order order_;
};

inline void stream_ref::wait(const event& event) const { detail::make_stream_wait(*this, event); }

inline void stream::wait(const event& event) const { ref().wait(event); }

}  // namespace hipvmm
