// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "runtime/stream_watch.hpp"

namespace hipvmm::detail {

void record_without_notify(const event& recorded, stream_ref stream);

/// Also false if another stream's capture forbids the query. Pre: not captured. Throws: hip_error.
[[nodiscard]] bool is_idle(stream_ref stream);
/// As is_idle(); false without runtime_rules::queries_stream_before_record.
[[nodiscard]] bool needs_no_event(stream_ref stream);

/// Scope around a recording. Stores the watchers' points of `stream` in the event, unless another
/// thread records it meanwhile.
class event_recording {
 public:
  event_recording(const event& recorded, stream_ref stream) noexcept;
  ~event_recording();
  event_recording& operator=(event_recording&&) = delete;
  void note_success() noexcept { has_succeeded_ = true; }

 private:
  const recorded_order& order_;
  watched_points points_;
  std::uint64_t state_;
  bool has_succeeded_ = false;
};

/// Made before a call that waits for an event or queries it. After its success the watchers learn
/// the order, if it is known: the event was last recorded through the library, not again since, and
/// nobody else has its handle.
class event_use {
 public:
  explicit event_use(const event& used) noexcept;
  [[nodiscard]] ihipEvent_t* handle() const noexcept { return event_.value_; }
  void add_dependency(stream_ref waiter) const noexcept;
  void note_passed() const noexcept;

 private:
  /// Empty if the order is not known.
  [[nodiscard]] watched_points points() const;

  const event& event_;
  std::uint64_t state_ = 0;  // 0: the order is not known
};

}  // namespace hipvmm::detail
