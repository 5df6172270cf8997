// SPDX-License-Identifier: MIT
#include "core/stream_order.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"

namespace hipvmm::detail {
namespace {

/// Where an event was recorded last.
struct recorded {
  std::uint64_t generation = 0;
  int under_way = 0;
  // Two threads recorded it at once: nobody knows whose mark it holds.
  bool is_torn = false;
  watched_points points = {};
};

struct registry {
  struct numbered {
    std::uint64_t number;
    stream_watcher* watcher;
  };

  [[nodiscard]] bool is_watched() const noexcept {
    return count.load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] stream_watcher* find(std::uint64_t number) const noexcept {
    for (const numbered& each : watchers)
      if (each.number == number) return each.watcher;
    return nullptr;
  }
  template <typename Tell>
  void tell(const watched_points& points, Tell one) const {
    for (const watched_point& each : points) {
      if (stream_watcher* const watcher = find(each.watcher)) one(*watcher, each.point);
    }
  }

  std::atomic<std::size_t> count{0};  // of watchers, to be asked without a lock
  // Held shared while streams end, for that may take a watcher long; before the other one.
  std::shared_mutex ends;
  std::mutex mutex;
  std::vector<numbered> watchers;
  std::unordered_map<const ihipEvent_t*, recorded> events;
  std::uint64_t last = 0;  // number of a watcher or a recording
};

/// Never destroyed: streams and events may end when the program does.
registry& all() {
  static registry& made = *new registry;
  return made;
}

/// What fails here fails in the call that the points are for as well, which tells of it: until then
/// the stream has none.
bool may_be_captured(stream_ref stream) {
  try {
    return is_captured(stream);
  } catch (const hip_error&) {
    return true;
  }
}

watched_points points_of(stream_ref stream) {
  watched_points points;
  if (may_be_captured(stream)) return points;
  registry& known = all();
  const std::lock_guard lock{known.mutex};
  for (const registry::numbered& each : known.watchers) {
    const stream_point point = each.watcher->point_of(stream);
    if (point.stream != nullptr) points.push_back({each.number, point});
  }
  return points;
}

}  // namespace

void watch_streams(stream_watcher& watcher) {
  registry& known = all();
  const std::lock_guard none_ends{known.ends};
  const std::lock_guard lock{known.mutex};
  known.watchers.push_back({++known.last, &watcher});
  known.count = known.watchers.size();
}

void end_watch(stream_watcher& watcher) noexcept {
  registry& known = all();
  const std::lock_guard none_ends{known.ends};
  const std::lock_guard lock{known.mutex};
  std::erase_if(known.watchers, [&](const auto& each) { return each.watcher == &watcher; });
  known.count = known.watchers.size();
  // Nobody is told of events that end from now on.
  if (known.watchers.empty())
    std::erase_if(known.events, [](const auto& each) { return each.second.under_way == 0; });
}

event_recording::event_recording(const ihipEvent_t* event, stream_ref stream) noexcept
    : event_{event} {
  registry& known = all();
  if (!known.is_watched()) return;
  report_exceptions([&] {
    {
      const std::lock_guard lock{known.mutex};
      recorded& record = known.events[event];
      record.generation = ++known.last;
      record.points.clear();
      record.is_torn = record.under_way++ != 0;
      has_begun_ = true;
    }
    points_ = points_of(stream);
  });
}

event_recording::~event_recording() {
  if (!has_begun_) return;
  registry& known = all();
  const std::lock_guard lock{known.mutex};
  const auto found = known.events.find(event_);
  if (found == known.events.end()) return;
  recorded& record = found->second;
  if (--record.under_way == 0 && has_succeeded_ && !record.is_torn)
    record.points = std::move(points_);
}

event_use::event_use(const ihipEvent_t* event) noexcept : event_{event} {
  registry& known = all();
  if (!known.is_watched()) return;
  const std::lock_guard lock{known.mutex};
  const auto found = known.events.find(event);
  if (found != known.events.end() && found->second.under_way == 0)
    generation_ = found->second.generation;
}

template <typename Tell>
void event_use::tell(Tell one) const noexcept {
  if (generation_ == 0) return;
  report_exceptions([&] {
    registry& known = all();
    const std::lock_guard lock{known.mutex};
    const auto found = known.events.find(event_);
    if (found != known.events.end() && found->second.generation == generation_)
      known.tell(found->second.points, one);
  });
}

void event_use::note_follows(stream_ref waiter) const noexcept {
  tell([waiter](stream_watcher& watcher, const stream_point& point) {
    watcher.note_follows(waiter, point);
  });
}

void event_use::note_passed() const noexcept {
  tell([](stream_watcher& watcher, const stream_point& point) { watcher.note_passed(point); });
}

stream_use::stream_use(stream_ref stream) noexcept {
  if (all().is_watched()) report_exceptions([&] { points_ = points_of(stream); });
}

void stream_use::note_passed() const noexcept {
  if (points_.empty()) return;
  report_exceptions([this] {
    registry& known = all();
    const std::lock_guard lock{known.mutex};
    known.tell(points_, [](stream_watcher& watcher, const stream_point& point) {
      watcher.note_passed(point);
    });
  });
}

void note_event_end(const ihipEvent_t* event) noexcept {
  registry& known = all();
  if (!known.is_watched()) return;
  const std::lock_guard lock{known.mutex};
  known.events.erase(event);
}

void note_stream_end(stream_ref stream) noexcept {
  registry& known = all();
  if (!known.is_watched()) return;
  // Told behind the lock, for an error handler may make or end what watches.
  held_reports told;
  const reports_wait wait{told};
  const std::shared_lock none_comes_or_goes{known.ends};
  for (const registry::numbered& each : known.watchers)
    report_exceptions([&] { each.watcher->note_end(stream); });
}

}  // namespace hipvmm::detail
