// SPDX-License-Identifier: MIT
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>

struct ihipStream_t;

namespace hipvmm::detail {

/// A point in the order of a stream. `stream` is the watcher's identifier, nullptr if it does not
/// track the stream; `count` grows with each point of that stream.
struct stream_point {
  void* stream = nullptr;
  std::uint64_t count = 0;
};

/// Learns the order of streams from calls of hipvmm's streams and events, except in a capture.
/// Called by several threads at once, under no lock of this module. Destroy it after end_watch(),
/// which is called without a lock that these functions take.
class stream_watcher {
 public:
  virtual ~stream_watcher() = default;
  stream_watcher& operator=(stream_watcher&&) = delete;

  /// The point after all work submitted to `stream` until now. With `poll`, which a program may
  /// repeat, it may omit a count that takes time.
  [[nodiscard]] virtual stream_point point_of(ihipStream_t* stream, bool poll) = 0;
  /// Work submitted to `waiter` from now on is ordered after that point.
  virtual void add_dependency(ihipStream_t* waiter, const stream_point& point) = 0;
  virtual void note_passed(const stream_point& point) = 0;
  /// `stream` will be destroyed, even if this throws. Its handle may be used again.
  virtual void note_end(ihipStream_t* stream) = 0;
};

void watch_streams(stream_watcher& watcher);
/// When this returns, none of the watcher's functions runs or is called any more.
void end_watch(stream_watcher& watcher) noexcept;

struct watch_place;
struct watched_point {
  watch_place* place;
  std::uint64_t watcher;  // its number, never reused
  stream_point point;
};
using watched_points = boost::container::small_vector<watched_point, 2>;

[[nodiscard]] bool is_any_watched() noexcept;
/// Adds nothing for a captured stream.
void add_points_of(ihipStream_t* stream, bool poll, watched_points& points);
/// Only of watchers that made the points and still watch.
void add_dependency(const watched_points& points, ihipStream_t* waiter);
void note_passed(const watched_points& points);

/// Made before a call that waits for a stream or queries it (`poll`); note_passed() follows.
class stream_use {
 public:
  stream_use(ihipStream_t* stream, bool poll) noexcept;
  void note_passed() const noexcept;

 private:
  watched_points points_;
};

/// Throws: std::bad_alloc.
void note_stream_begin(ihipStream_t* stream);
void note_stream_end(ihipStream_t* stream) noexcept;
/// The program has `stream` from now on, and reports no end. For watchers this is the end, unless
/// the runtime refuses handles of destroyed streams.
void note_stream_release(ihipStream_t* stream) noexcept;
[[nodiscard]] bool reports_its_end(ihipStream_t* stream);

}  // namespace hipvmm::detail
