// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/event.hpp>

#include <array>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <variant>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "runtime/check_resources.hpp"
#include "runtime/event.hpp"
#include "runtime/runtime_rules.hpp"
#include "runtime/stream.hpp"
#include "runtime/stream_watch.hpp"

namespace hipvmm {

using detail::check;

namespace detail {

/// One thread at a time writes the points. A reader that races with it finds the event's state
/// changed, which happens before any value is stored.
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

recorded_points& made_at(std::atomic<recorded_points*>& kept) {
  recorded_points* present = kept.load(std::memory_order_acquire);
  if (present != nullptr) return *present;
  auto made = std::make_unique<recorded_points>();
  if (!kept.compare_exchange_strong(present, made.get())) return *present;
  return *made.release();
}

/// Throws: std::bad_alloc; the points then belong to no recording.
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

/// False if another recording writes the points.
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
  const bool is_seen = (state_ & recorded_order::handle_exposed) == 0;
  if (is_alone && is_seen && is_any_watched())
    report_exceptions([&] { add_points_of(stream.get(), false, points_); });
}

event_recording::~event_recording() {
  // No other thread writes: a later recording sees this one under way and has no points. If the
  // state has changed since, nobody can use these.
  const std::uint64_t own = (state_ / recorded_order::one_recording) + 1;
  if (has_succeeded_ && !points_.empty())
    report_exceptions([&] { write(points_, own, order_.points_); });
  order_.state_.fetch_sub(recorded_order::one_under_way);
}

event_use::event_use(const event& used) noexcept : event_{used} {
  const recorded_order& order = event_.order_;
  const std::uint64_t state = order.state_.load();
  if ((state & recorded_order::handle_exposed) != 0) return;
  // While a recording is under way, the state is ahead of the points.
  const recorded_points* const points = order.points_.load(std::memory_order_acquire);
  if (points == nullptr ||
      points->recording.load(std::memory_order_acquire) != state / recorded_order::one_recording)
    return;
  state_ = state;
}

watched_points event_use::points() const {
  watched_points points;
  if (state_ == 0) return points;
  const recorded_order& order = event_.order_;
  const bool is_whole = read(*order.points_.load(std::memory_order_acquire), points);
  if (!is_whole || order.state_.load() != state_) points.clear();
  return points;
}

void event_use::add_dependency(stream_ref waiter) const noexcept {
  if (state_ != 0) report_exceptions([&] { detail::add_dependency(points(), waiter.get()); });
}

void event_use::note_passed() const noexcept {
  if (state_ != 0) report_exceptions([&] { detail::note_passed(points()); });
}

}  // namespace detail

namespace {

ihipEvent_t* require_event(ihipEvent_t* value) {
  if (value == nullptr)
    throw std::invalid_argument{"the event is empty: it was moved from or released"};
  return value;
}

/// HIP has one code for a missing stream and another device's.
void check_recording(hipError_t result, device_ref device, stream_ref stream,
                     std::source_location where = std::source_location::current()) {
  if (detail::is_stream_missing(result))
    detail::throw_failure(
        result, "hipEventRecord",
        "an event of device " + std::to_string(device.ordinal()) +
            " was to be recorded in stream " + detail::address_text(stream.get()) +
            ", which was destroyed or is another device's: record it in a stream of its own device",
        where);
  check(result, "hipEventRecord", where);
}

ihipEvent_t* create(device_ref device, event_timing timing) {
  const scoped_device scope{device};
  hipEvent_t value = nullptr;
  detail::check_resources(
      hipEventCreateWithFlags(
          &value, timing == event_timing::enabled ? hipEventDefault : hipEventDisableTiming),
      "hipEventCreateWithFlags", device, 0);
  return value;
}

}  // namespace

event::event(event_timing timing) : event{device_ref::current(), timing} {}

event::event(device_ref device, event_timing timing)
    : value_{create(device, timing)}, device_{device} {}

event::~event() {
  if (value_ != nullptr && !process_.is_of_parent())
    detail::report(hipEventDestroy(value_), "hipEventDestroy");
}

event& event::operator=(event&& other) noexcept {
  event moved{std::move(other)};
  std::swap(value_, moved.value_);
  std::swap(device_, moved.device_);
  std::swap(process_, moved.process_);
  order_.swap(moved.order_);
  return *this;
}

void detail::record_without_notify(const event& recorded, stream_ref stream) {
  recorded.order_.state_.fetch_add(recorded_order::one_recording);
  check_recording(hipEventRecord(require_event(recorded.value_), stream.get()), recorded.device_,
                  stream);
}

bool detail::is_idle(stream_ref stream) {
  try {
    const relaxed_captures relaxed;
    return is_done_without_notify(stream);
  } catch (const hip_error& error) {
    // ROCm 5.7 refuses the query, but not a record, beside another stream's global capture.
    if (error.code() != hipErrorStreamCaptureUnsupported &&
        error.code() != hipErrorStreamCaptureInvalidated)
      throw;
    return false;
  }
}

bool detail::needs_no_event(stream_ref stream) {
  return rules_of_runtime().queries_stream_before_record && is_idle(stream);
}

void event::record(stream_ref stream) {
  require_event(value_);
  detail::event_recording told{*this, stream};
  check_recording(hipEventRecord(value_, stream.get()), device_, stream);
  told.note_success();
}

void detail::make_stream_wait(stream_ref waiter, const event& event) {
  const event_use use{event};
  check_stream(hipStreamWaitEvent(waiter.get(), require_event(use.handle()), 0),
               "hipStreamWaitEvent", waiter.get());
  use.add_dependency(waiter);
}

void event::synchronize() const {
  const detail::event_use use{*this};
  check(hipEventSynchronize(require_event(value_)), "hipEventSynchronize");
  use.note_passed();
}

bool event::is_done() const {
  const detail::event_use use{*this};
  hipError_t result = hipErrorNotReady;
  try {
    result = hipEventQuery(require_event(value_));
  } catch (const std::bad_variant_access&) {
    // AMD's runtime 7.2.4, while the record completes (docs/guides/rocm.md).
  }
  if (detail::is_not_ready(result)) return false;
  check(result, "hipEventQuery");
  use.note_passed();
  return true;
}

std::chrono::duration<float, std::milli> event::elapsed(const event& from, const event& to) {
  float milliseconds = 0;
  const hipError_t result =
      hipEventElapsedTime(&milliseconds, require_event(from.value_), require_event(to.value_));
  if (result == hipErrorInvalidHandle)
    detail::throw_failure(
        result, "hipEventElapsedTime",
        "the time from an event of device " + std::to_string(from.device_.ordinal()) +
            " to one of device " + std::to_string(to.device_.ordinal()) +
            ": record both on one device, and make them with event_timing::enabled");
  check(result, "hipEventElapsedTime");
  return std::chrono::duration<float, std::milli>{milliseconds};
}

}  // namespace hipvmm
