// SPDX-License-Identifier: MIT
#include "mr/pool/backend/event_fences.hpp"

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "mr/stream_wait.hpp"
#include "region/retirement.hpp"
#include "runtime/device.hpp"
#include "runtime/event.hpp"
#include "runtime/runtime_rules.hpp"
#include "runtime/stream.hpp"
#include "runtime/stream_watch.hpp"

namespace hipvmm::mr::pool {

struct event_fences::spare_events {
  explicit spare_events(device_ref of) : owner{of} {}

  std::optional<event> take(device_ref device) {
    const std::lock_guard lock{mutex};
    const auto found =
        std::ranges::find_if(events, [device](const event& one) { return one.device() == device; });
    if (found == events.end()) return std::nullopt;
    std::swap(*found, events.back());
    event taken = std::move(events.back());
    events.pop_back();
    return taken;
  }
  void give(event one) {
    constexpr std::size_t most = 64;
    const std::lock_guard lock{mutex};
    if (events.size() < most) events.push_back(std::move(one));
  }

  const device_ref owner;
  std::mutex mutex;
  std::vector<event> events;
};

class event_fences::event_fence final : public fence {
 public:
  event_fence(event recorded, std::shared_ptr<spare_events> home)
      : event_{std::move(recorded)}, home_{std::move(home)} {}
  ~event_fence() override {
    // Without host memory the event is destroyed.
    detail::report_exceptions([this] { home_->give(std::move(event_)); });
  }
  event_fence& operator=(event_fence&&) = delete;

  [[nodiscard]] bool is_done() const override {
    const detail::relaxed_captures relaxed;
    return event_.is_done();
  }
  void synchronize() const override {
    const detail::relaxed_captures relaxed;
    try {
      event_.synchronize();
    } catch (const hip_error& error) {
      if (error.code() != hipErrorStreamCaptureUnsupported) throw;
      // ROCm 5.7 refuses waits beside a global capture even in relaxed threads, but not queries.
      constexpr std::chrono::microseconds between_queries{50};
      while (!event_.is_done()) std::this_thread::sleep_for(between_queries);
    }
  }
  [[nodiscard]] bool make_stream_wait(stream_ref waiter) const override {
    const detail::relaxed_captures relaxed;
    // The pool's default streams are of its device, even if the event is not.
    const scoped_device scope{home_->owner};
    if (detail::is_captured(waiter)) return false;
    waiter.wait(event_);
    return true;
  }

 private:
  event event_;
  std::shared_ptr<spare_events> home_;
};

/// Done when a thread of the library has waited for the present work of the devices.
class event_fences::device_fence final : public fence {
 public:
  explicit device_fence(detail::device_list devices) : devices_{std::move(devices)} {
    auto token = std::make_shared<char>();
    std::weak_ptr<char> left = token;
    std::shared_ptr<void> given = std::move(token);
    if (detail::retire_token(given, devices_)) waited_for_ = std::move(left);
  }
  [[nodiscard]] bool is_done() const override { return waited_for_ && waited_for_->expired(); }
  void synchronize() const override {
    const detail::relaxed_captures relaxed;
    for (const device_ref each : devices_) each.synchronize();
  }
  [[nodiscard]] bool orders_streams() const override { return false; }
  [[nodiscard]] bool make_stream_wait(stream_ref) const override { return false; }

 private:
  detail::device_list devices_;
  std::optional<std::weak_ptr<char>> waited_for_;  // none: no thread waits
};

event_fences::event_fences(device_ref owner, bool streams_report_ends)
    : devices_{owner},
      spare_{std::make_shared<spare_events>(owner)},
      streams_may_vanish_{!streams_report_ends &&
                          !detail::rules_of_runtime().refuses_ended_streams} {}

bool event_fences::may_vanish(stream_ref stream) const {
  return streams_may_vanish_ && !stream.is_default() && !stream.is_per_thread_default() &&
         !detail::reports_its_end(stream.get());
}

void event_fences::add(device_ref device) {
  const std::lock_guard lock{mutex_};
  if (std::ranges::find(devices_, device) == devices_.end()) devices_.push_back(device);
}

void event_fences::note_user(device_ref device) {
  const std::lock_guard lock{mutex_};
  for (const detail::device_list* const known : {&devices_, &without_access_})
    if (std::find(known->begin(), known->end(), device) != known->end()) return;
  without_access_.push_back(device);
}

detail::device_list event_fences::devices() {
  const std::lock_guard lock{mutex_};
  detail::device_list all = devices_;
  all.insert(all.end(), without_access_.begin(), without_access_.end());
  return all;
}

detail::device_list event_fences::all_devices() {
  detail::device_list all = devices();
  for (const device_ref other : detail::all_devices()) {
    // A device without a context has no streams.
    if (std::ranges::find(all, other) == all.end() && detail::has_context(other))
      all.push_back(other);
  }
  return all;
}

void event_fences::synchronize() {
  const detail::relaxed_captures relaxed;
  for (const device_ref each : users()) each.synchronize();
}

void event_fences::synchronize_without_access() {
  std::size_t with_access = 0;  // those with access are the first
  {
    const std::lock_guard lock{mutex_};
    with_access = devices_.size();
  }
  const detail::device_list all = users();
  const detail::relaxed_captures relaxed;
  for (std::size_t i = with_access; i < all.size(); ++i) all[i].synchronize();
}

std::shared_ptr<const fence> event_fences::fence_for_all() {
  return std::make_shared<device_fence>(users());
}

std::shared_ptr<const fence> event_fences::fence_for_gone() {
  note_unknown_user();
  return fence_for_all();
}

bool event_fences::fences_need_streams() const {
  return detail::rules_of_runtime().events_need_streams;
}

namespace {

/// Throws no out_of_memory, because the slow path would wait for memory that no event needs.
event make_event(device_ref device) {
  try {
    return event{device};
  } catch (const out_of_memory& full) {
    detail::throw_failure(hipErrorOutOfMemory, "hipEventCreateWithFlags", full.what());
  }
}

/// Returns true if another thread's capture made a call fail, false if the stream has ended.
/// Throws: any other failure.
bool is_by_capture(const hip_error& error) {
  switch (error.code()) {
    case hipErrorStreamCaptureUnsupported:
    case hipErrorStreamCaptureInvalidated:
      return true;
    // The host provider and ROCm from 7.1 say InvalidHandle, ROCm 6 ContextIsDestroyed, others
    // InvalidValue. The stream's work may still run. CUDA may crash: there may_vanish() prevents
    // such calls.
    case hipErrorInvalidHandle:
    case hipErrorContextIsDestroyed:
    case hipErrorInvalidValue:
      return false;
    default:
      throw hip_error{error};
  }
}

}  // namespace

std::shared_ptr<const fence> event_fences::fence_for(stream_ref stream) {
  const detail::relaxed_captures relaxed;
  detail::device_list tried = devices();
  const device_ref first = tried.front();
  // A default stream belongs to the device that is current.
  const scoped_device on_first{first};
  try {
    if (detail::is_captured(stream)) return nullptr;
    if (detail::needs_no_event(stream)) return std::make_shared<passed_fence>();
  } catch (const hip_error& error) {
    return is_by_capture(error) ? nullptr : fence_for_gone();
  }
  for (const device_ref other : detail::all_devices())
    if (std::ranges::find(tried, other) == tried.end()) tried.push_back(other);
  // HIP before 6 does not report the device of a stream, but refuses other devices' events.
  for (const device_ref device : tried) {
    // A device without a context has no streams.
    if (device != first && !detail::has_context(device)) continue;
    std::optional<scoped_device> on_other;
    if (device != first) on_other.emplace(device);
    std::optional<event> one = spare_->take(device);
    if (!one) one = make_event(device);
    try {
      detail::record_without_notify(*one, stream);
    } catch (const hip_error& error) {
      if (is_by_capture(error)) return nullptr;
      continue;
    }
    note_user(device);
    try {
      // Another thread may have begun a capture, which contains the record, or destroyed the
      // stream; then the record may not cover its work.
      if (detail::is_captured(stream)) return nullptr;
    } catch (const hip_error& error) {
      return is_by_capture(error) ? nullptr : fence_for_gone();
    }
    return std::make_shared<event_fence>(std::move(*one), spare_);
  }
  return fence_for_gone();
}

}  // namespace hipvmm::mr::pool
