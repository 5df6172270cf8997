// SPDX-License-Identifier: MIT
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>

#include <hipvmm/core/event.hpp>
#include <hipvmm/core/stream.hpp>

namespace hipvmm::detail {

/// A point that a stream comes to: what a watcher knows the stream by, and a count that grows with
/// each point of that stream. `stream` is nullptr where the watcher takes no interest in it.
struct stream_point {
  void* stream = nullptr;
  std::uint64_t count = 0;
};

/// Learns how streams are ordered by what programs do through hipvmm's streams and events.
/// - Called in the threads that do it, several at once, and under no lock of this module.
/// - Not called for streams in a capture.
/// - Ends only when none of its functions runs: locks that they take must not be held by who ends
///   it.
class stream_watcher {
 public:
  stream_watcher() = default;
  virtual ~stream_watcher() = default;
  stream_watcher(const stream_watcher&) = delete;
  stream_watcher& operator=(const stream_watcher&) = delete;

  /// The point behind all that `stream` has been given until now. With `poll`, which a program may
  /// call again and again, a point that leaves out what would take time to count is as good.
  [[nodiscard]] virtual stream_point point_of(stream_ref stream, bool poll) = 0;
  /// What `waiter` is given from now on comes behind that point.
  virtual void note_follows(stream_ref waiter, const stream_point& point) = 0;
  /// The stream has passed that point.
  virtual void note_passed(const stream_point& point) = 0;
  /// `stream` will be destroyed, also when this throws: its handle may be another stream's next.
  virtual void note_end(stream_ref stream) = 0;
};

void watch_streams(stream_watcher& watcher);
/// None of the watcher's functions is called any more, nor still runs, when this returns.
void end_watch(stream_watcher& watcher) noexcept;

struct watch_place;
struct watched_point {
  watch_place* place;
  std::uint64_t watcher;  // its number, which is never given again
  stream_point point;
};
/// Mostly there is one watcher or none.
using watched_points = boost::container::small_vector<watched_point, 2>;

/// Records an event as event::record does, and tells nobody.
void record_untold(const event& recorded, stream_ref stream);
/// stream.is_done() without a word to watchers.
[[nodiscard]] bool is_done_untold(stream_ref stream);

/// Lives around a call that records an event in `stream`. What watchers say of the stream is kept
/// in the event, unless another thread records it meanwhile: nobody knows whose mark it holds then.
class event_recording {
 public:
  event_recording(const event& recorded, stream_ref stream) noexcept;
  ~event_recording();
  event_recording(const event_recording&) = delete;
  event_recording& operator=(const event_recording&) = delete;
  void note_success() noexcept { has_succeeded_ = true; }

 private:
  const recorded_order& order_;
  watched_points points_;
  std::uint64_t state_;  // as this began
  bool has_succeeded_ = false;
};

/// Made before a call that waits for an event or asks for it. When the call has succeeded the
/// watchers are told of the order, where it is known:
/// - the event was last recorded through the library, and not anew meanwhile;
/// - nobody else has its handle.
class event_use {
 public:
  explicit event_use(const event& used) noexcept;
  [[nodiscard]] ihipEvent_t* handle() const noexcept { return event_.value_; }
  void note_follows(stream_ref waiter) const noexcept;
  void note_passed() const noexcept;

 private:
  template <typename Tell>
  void tell(Tell tell) const noexcept;

  const event& event_;
  std::uint64_t state_ = 0;  // 0: nothing is known
};

/// The same for a call that waits for all of a stream, or asks for it.
class stream_use {
 public:
  /// `poll`: it asks and does not wait.
  stream_use(stream_ref stream, bool poll) noexcept;
  void note_passed() const noexcept;

 private:
  watched_points points_;
};

void note_stream_end(stream_ref stream) noexcept;

}  // namespace hipvmm::detail
