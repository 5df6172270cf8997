// SPDX-License-Identifier: MIT
#include "runtime/stream_watch.hpp"

#include <atomic>
#include <mutex>
#include <unordered_set>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::detail {

/// Never destroyed, so that code with a stale place can read it without a lock.
struct watch_place {
  std::atomic<std::uint64_t> number{0};           // the watcher's; 0: no visit may begin
  std::atomic<stream_watcher*> watcher{nullptr};  // nullptr: the place is free
  std::atomic<std::uint32_t> visits{0};
  watch_place* next = nullptr;
};

namespace {

struct registry {
  [[nodiscard]] bool is_watched() const noexcept {
    return count.load(std::memory_order_acquire) != 0;
  }

  std::atomic<watch_place*> places{nullptr};  // only ever more of them
  std::atomic<std::size_t> count{0};          // of watchers
  std::mutex changes;                         // no watcher is called under it
  std::uint64_t last_number = 0;
};

registry& all() {
  static never_destroyed<registry> made;
  return made.get();
}

struct reporting_streams {
  std::mutex mutex;
  std::unordered_set<ihipStream_t*> handles;

  void erase(ihipStream_t* stream) noexcept {
    const std::lock_guard lock{mutex};
    handles.erase(stream);
  }
};

reporting_streams& reporting() {
  static never_destroyed<reporting_streams> made;
  return made.get();
}

/// A watcher does not end while it is visited.
class visit {
 public:
  visit(watch_place& place, std::uint64_t number) noexcept : place_{place} {
    // Either end_watch() sees the visit, or the visit sees that the watch has ended.
    place_.visits.fetch_add(1);
    if (number != 0 && place_.number.load() == number) watcher_ = place_.watcher.load();
  }
  ~visit() {
    if (place_.visits.fetch_sub(1) == 1 && place_.number.load() == 0) place_.visits.notify_all();
  }
  visit& operator=(visit&&) = delete;
  [[nodiscard]] stream_watcher* watcher() const noexcept { return watcher_; }

 private:
  watch_place& place_;
  stream_watcher* watcher_ = nullptr;
};

template <typename Call>
void for_each_watcher(Call call) {
  for (watch_place* each = all().places.load(); each != nullptr; each = each->next) {
    const std::uint64_t number = each->number.load();
    if (number == 0) continue;
    const visit visited{*each, number};
    if (visited.watcher() != nullptr) call(*each, number, *visited.watcher());
  }
}

template <typename Notify>
void notify_all(const watched_points& points, Notify notify) {
  for (const watched_point& each : points) {
    const visit visited{*each.place, each.watcher};
    if (visited.watcher() != nullptr) notify(*visited.watcher(), each.point);
  }
}

/// True on failure too, which the call that the points are for reports.
bool may_be_captured(ihipStream_t* stream) {
  try {
    return is_captured(stream);
  } catch (const hip_error&) {
    return true;
  }
}

}  // namespace

void watch_streams(stream_watcher& watcher) {
  registry& known = all();
  const std::lock_guard lock{known.changes};
  watch_place* place = known.places.load();
  while (place != nullptr && place->watcher.load() != nullptr) place = place->next;
  if (place == nullptr) {
    place = new watch_place;
    place->next = known.places.load();
    known.places.store(place);
  }
  place->watcher.store(&watcher);
  place->number.store(++known.last_number);
  ++known.count;
}

void end_watch(stream_watcher& watcher) noexcept {
  registry& known = all();
  watch_place* place = known.places.load();
  while (place != nullptr && place->watcher.load() != &watcher) place = place->next;
  if (place == nullptr) return;
  place->number.store(0);
  --known.count;
  for (std::uint32_t left = place->visits.load(); left != 0; left = place->visits.load())
    place->visits.wait(left);
  place->watcher.store(nullptr);
}

bool is_any_watched() noexcept { return all().is_watched(); }

void add_points_of(ihipStream_t* stream, bool poll, watched_points& points) {
  if (may_be_captured(stream)) return;
  for_each_watcher([&](watch_place& place, std::uint64_t number, stream_watcher& watcher) {
    const stream_point point = watcher.point_of(stream, poll);
    if (point.stream != nullptr) points.push_back({&place, number, point});
  });
}

void add_dependency(const watched_points& points, ihipStream_t* waiter) {
  notify_all(points, [waiter](stream_watcher& watcher, const stream_point& point) {
    watcher.add_dependency(waiter, point);
  });
}

void note_passed(const watched_points& points) {
  notify_all(points, [](stream_watcher& watcher, const stream_point& point) {
    watcher.note_passed(point);
  });
}

stream_use::stream_use(ihipStream_t* stream, bool poll) noexcept {
  if (all().is_watched()) report_exceptions([&] { add_points_of(stream, poll, points_); });
}

void stream_use::note_passed() const noexcept {
  if (points_.empty()) return;
  report_exceptions([this] { detail::note_passed(points_); });
}

void note_stream_begin(ihipStream_t* stream) {
  reporting_streams& known = reporting();
  const std::lock_guard lock{known.mutex};
  known.handles.insert(stream);
}

bool reports_its_end(ihipStream_t* stream) {
  reporting_streams& known = reporting();
  const std::lock_guard lock{known.mutex};
  return known.handles.count(stream) != 0;
}

void note_stream_release(ihipStream_t* stream) noexcept {
  if (report_exceptions([] { return rules_of_runtime().refuses_ended_streams; }))
    reporting().erase(stream);
  else
    note_stream_end(stream);
}

void note_stream_end(ihipStream_t* stream) noexcept {
  // First, so that no watcher takes a new state meanwhile for one whose end is reported.
  reporting().erase(stream);
  if (!all().is_watched()) return;
  // Reported after the visits, because an error handler may end a watcher.
  held_reports told;
  const reports_wait wait{told};
  const events_wait later;
  for_each_watcher([stream](watch_place&, std::uint64_t, stream_watcher& watcher) {
    report_exceptions([&] { watcher.note_end(stream); });
  });
}

}  // namespace hipvmm::detail
