// SPDX-License-Identifier: MIT
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>

#include <hipvmm/core/stream.hpp>

// The opaque struct behind hipEvent_t.
struct ihipEvent_t;

namespace hipvmm::detail {

/// A point that a stream comes to: what a watcher knows the stream by, and a count that grows with
/// each point of that stream. `stream` is nullptr where the watcher takes no interest in it.
struct stream_point {
  void* stream = nullptr;
  std::uint64_t count = 0;
};

/// What wants to know how streams are ordered by what programs do through hipvmm's streams and
/// events. Called in the threads that do it, one at a time but for note_end, and not for streams in
/// a capture. Locks that these functions take, but for note_end, must not be held while streams and
/// events are used.
class stream_watcher {
 public:
  stream_watcher() = default;
  virtual ~stream_watcher() = default;
  stream_watcher(const stream_watcher&) = delete;
  stream_watcher& operator=(const stream_watcher&) = delete;

  /// The point behind all that `stream` has been given until now.
  [[nodiscard]] virtual stream_point point_of(stream_ref stream) = 0;
  /// What `waiter` is given from now on comes behind that point.
  virtual void note_follows(stream_ref waiter, const stream_point& point) = 0;
  /// The stream has passed that point.
  virtual void note_passed(const stream_point& point) = 0;
  /// `stream` will be destroyed.
  virtual void note_end(stream_ref stream) = 0;
};

void watch_streams(stream_watcher& watcher);
/// None of the watcher's functions is called any more, nor still runs, when this returns.
void end_watch(stream_watcher& watcher) noexcept;

struct watched_point {
  std::uint64_t watcher;  // its number, which is never given again
  stream_point point;
};
/// Mostly there is one watcher or none.
using watched_points = boost::container::small_vector<watched_point, 2>;

/// Records an event as event::record does, and tells nobody.
void record_untold(const event& recorded, stream_ref stream);
/// stream.is_done() without a word to watchers.
[[nodiscard]] bool is_done_untold(stream_ref stream);

/// Lives around a call that records `event` in `stream`.
class event_recording {
 public:
  event_recording(const ihipEvent_t* event, stream_ref stream) noexcept;
  ~event_recording();
  event_recording(const event_recording&) = delete;
  event_recording& operator=(const event_recording&) = delete;
  void note_success() noexcept { has_succeeded_ = true; }

 private:
  const ihipEvent_t* event_;
  watched_points points_;
  bool has_begun_ = false;
  bool has_succeeded_ = false;
};

/// Made before a call that waits for an event or asks for it. What it is told when the call has
/// succeeded goes to the watchers, unless the event was recorded anew meanwhile.
class event_use {
 public:
  explicit event_use(const ihipEvent_t* event) noexcept;
  void note_follows(stream_ref waiter) const noexcept;
  void note_passed() const noexcept;

 private:
  template <typename Tell>
  void tell(Tell tell) const noexcept;

  const ihipEvent_t* event_;
  std::uint64_t generation_ = 0;
};

/// The same for a call that waits for all of a stream, or asks for it.
class stream_use {
 public:
  explicit stream_use(stream_ref stream) noexcept;
  void note_passed() const noexcept;

 private:
  watched_points points_;
};

void note_event_end(const ihipEvent_t* event) noexcept;
void note_stream_end(stream_ref stream) noexcept;

}  // namespace hipvmm::detail
