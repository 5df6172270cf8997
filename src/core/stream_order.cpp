// SPDX-License-Identifier: MIT
#include "core/stream_order.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"

namespace hipvmm::detail {

/// Where one watcher is found. A place is never destroyed and serves later watchers, so that it can
/// be looked at without a lock by who remembers an earlier one.
struct watch_place {
  std::atomic<std::uint64_t> number{0};           // of the watcher; 0: nobody may begin a visit
  std::atomic<stream_watcher*> watcher{nullptr};  // nullptr: the place is free
  std::atomic<std::uint32_t> visits{0};
  watch_place* next = nullptr;
};

/// The points of an event's last recording, as many as fit, and the others in the next of these.
/// One thread at a time writes them, and whoever reads them meanwhile finds out by the event's
/// state: each value is stored after that has changed.
struct recorded_points {
  struct one {
    std::atomic<watch_place*> place{nullptr};
    std::atomic<std::uint64_t> watcher{0};
    std::atomic<void*> stream{nullptr};
    std::atomic<std::uint64_t> count{0};
  };
  std::atomic<std::uint64_t> recording{0};  // the state's count when they were written
  std::atomic<std::size_t> used{0};
  std::array<one, 2> points;
  std::atomic<recorded_points*> more{nullptr};
};

namespace {

struct registry {
  [[nodiscard]] bool is_watched() const noexcept {
    return count.load(std::memory_order_acquire) != 0;
  }

  std::atomic<watch_place*> places{nullptr};  // only ever more of them
  std::atomic<std::size_t> count{0};          // of watchers
  std::mutex changes;                         // of who watches; nothing is called under it
  std::uint64_t last_number = 0;
};

/// Never destroyed: streams and events may end when the program does.
registry& all() {
  static registry& made = *new registry;
  return made;
}

/// A watcher does not end while it is visited.
class visit {
 public:
  visit(watch_place& place, std::uint64_t number) noexcept : place_{place} {
    // Either the end of the watch sees the visit, or the visit that the watch has ended.
    place_.visits.fetch_add(1);
    if (number != 0 && place_.number.load() == number) watcher_ = place_.watcher.load();
  }
  ~visit() {
    if (place_.visits.fetch_sub(1) == 1 && place_.number.load() == 0) place_.visits.notify_all();
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  /// nullptr when that one does not watch any more.
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

template <typename Tell>
void tell_all(const watched_points& points, Tell one) {
  for (const watched_point& each : points) {
    const visit visited{*each.place, each.watcher};
    if (visited.watcher() != nullptr) one(*visited.watcher(), each.point);
  }
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

void add_points_of(stream_ref stream, bool poll, watched_points& points) {
  if (may_be_captured(stream)) return;
  for_each_watcher([&](watch_place& place, std::uint64_t number, stream_watcher& watcher) {
    const stream_point point = watcher.point_of(stream, poll);
    if (point.stream != nullptr) points.push_back({&place, number, point});
  });
}

/// The points that `kept` leads to, made where there are none. Throws: std::bad_alloc.
recorded_points& made_at(std::atomic<recorded_points*>& kept) {
  recorded_points* present = kept.load(std::memory_order_acquire);
  if (present != nullptr) return *present;
  auto made = std::make_unique<recorded_points>();
  if (!kept.compare_exchange_strong(present, made.get())) return *present;
  return *made.release();
}

/// Throws: std::bad_alloc; then they are those of no recording.
void write(const watched_points& points, std::uint64_t recording,
           std::atomic<recorded_points*>& to) {
  recorded_points* block = &made_at(to);
  block->used.store(points.size(), std::memory_order_release);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t place = i % block->points.size();
    if (i != 0 && place == 0) block = &made_at(block->more);
    recorded_points::one& at = block->points[place];
    at.place.store(points[i].place, std::memory_order_release);
    at.watcher.store(points[i].watcher, std::memory_order_release);
    at.stream.store(points[i].point.stream, std::memory_order_release);
    at.count.store(points[i].point.count, std::memory_order_release);
  }
  to.load(std::memory_order_acquire)->recording.store(recording, std::memory_order_release);
}

/// False when another recording writes them.
bool read(const recorded_points& from, watched_points& points) {
  const recorded_points* block = &from;
  const std::size_t used = from.used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t place = i % block->points.size();
    if (i != 0 && place == 0) block = block->more.load(std::memory_order_acquire);
    if (block == nullptr) return false;
    const recorded_points::one& at = block->points[place];
    points.push_back(
        {at.place.load(std::memory_order_acquire),
         at.watcher.load(std::memory_order_acquire),
         {at.stream.load(std::memory_order_acquire), at.count.load(std::memory_order_acquire)}});
  }
  return true;
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

void recorded_order::forget_points() noexcept {
  recorded_points* each = points_.load(std::memory_order_acquire);
  while (each != nullptr) {
    const std::unique_ptr<recorded_points> gone{each};
    each = gone->more.load(std::memory_order_acquire);
  }
}

event_recording::event_recording(const event& recorded, stream_ref stream) noexcept
    : order_{recorded.order_},
      state_{
          order_.state_.fetch_add(recorded_order::one_recording + recorded_order::one_under_way)} {
  const bool is_alone = (state_ & recorded_order::any_under_way) == 0;
  const bool is_seen = (state_ & recorded_order::given_away) == 0;
  if (is_alone && is_seen && all().is_watched())
    report_exceptions([&] { add_points_of(stream, false, points_); });
}

event_recording::~event_recording() {
  // Nobody else writes: whoever began before this one had ended, and who began since does not. Then
  // the state has come further, and this is of no use to anybody.
  const std::uint64_t own = (state_ / recorded_order::one_recording) + 1;
  if (has_succeeded_ && !points_.empty())
    report_exceptions([&] { write(points_, own, order_.points_); });
  order_.state_.fetch_sub(recorded_order::one_under_way);
}

event_use::event_use(const event& used) noexcept : event_{used} {
  const recorded_order& order = event_.order_;
  const std::uint64_t state = order.state_.load();
  if ((state & recorded_order::given_away) != 0) return;
  // While a recording is under way the state is further than what was written.
  const recorded_points* const points = order.points_.load(std::memory_order_acquire);
  if (points == nullptr ||
      points->recording.load(std::memory_order_acquire) != state / recorded_order::one_recording)
    return;
  state_ = state;
}

template <typename Tell>
void event_use::tell(Tell one) const noexcept {
  if (state_ == 0) return;
  report_exceptions([&] {
    const recorded_order& order = event_.order_;
    watched_points points;
    const bool is_whole = read(*order.points_.load(std::memory_order_acquire), points);
    if (is_whole && order.state_.load() == state_) tell_all(points, one);
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

stream_use::stream_use(stream_ref stream, bool poll) noexcept {
  if (all().is_watched()) report_exceptions([&] { add_points_of(stream, poll, points_); });
}

void stream_use::note_passed() const noexcept {
  if (points_.empty()) return;
  report_exceptions([this] {
    tell_all(points_, [](stream_watcher& watcher, const stream_point& point) {
      watcher.note_passed(point);
    });
  });
}

void note_stream_end(stream_ref stream) noexcept {
  if (!all().is_watched()) return;
  // Told behind the visits, for an error handler may end what watches.
  held_reports told;
  const reports_wait wait{told};
  for_each_watcher([stream](watch_place&, std::uint64_t, stream_watcher& watcher) {
    report_exceptions([&] { watcher.note_end(stream); });
  });
}

}  // namespace hipvmm::detail
