// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include <hipvmm/core/stream.hpp>

// The opaque struct behind hipEvent_t.
struct ihipEvent_t;

namespace hipvmm {
namespace detail {

class event_recording;
class event_use;
struct recorded_points;
void record_untold(const event& recorded, stream_ref stream);

/// Part of an event: what the library knows of the order of its last recording. Without a lock. As
/// the event itself it is moved and destroyed by one thread, while no other uses it.
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

  /// Others get the event's handle. From now on they may record the event unseen, and nothing is
  /// known of its order any more.
  void give_away() const noexcept {
    if ((state_.load(std::memory_order_relaxed) & given_away) == 0) state_.fetch_or(given_away);
  }

 private:
  friend class event_recording;
  friend class event_use;
  friend void record_untold(const event& recorded, stream_ref stream);

  // Parts of the state: a flag, how many threads are recording the event, how often one began to.
  static constexpr std::uint64_t given_away = 1;
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
      : value_{std::exchange(other.value_, nullptr)},
        device_{other.device_},
        order_{std::move(other.order_)} {}
  event& operator=(event&& other) noexcept;

  /// The event's handle. Who has it may record the event without the library, so that from the
  /// first call on pools learn no order from this event: use the members below where they will do.
  [[nodiscard]] ihipEvent_t* get() const noexcept {
    order_.give_away();
    return value_;
  }
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
  friend class detail::event_recording;
  friend class detail::event_use;
  friend void detail::record_untold(const event& recorded, stream_ref stream);

  ihipEvent_t* value_;
  device_ref device_;
  detail::recorded_order order_;
};

}  // namespace hipvmm
