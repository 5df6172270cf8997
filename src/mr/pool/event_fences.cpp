// SPDX-License-Identifier: MIT
#include "mr/pool/event_fences.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/device_wait.hpp"
#include "core/stream_order.hpp"

namespace hipvmm::mr::pool {

struct event_fences::spare_events {
  explicit spare_events(device_ref of) : owner{of} {}

  std::optional<event> take(device_ref device) {
    const std::lock_guard lock{mutex};
    const auto found = std::find_if(events.begin(), events.end(),
                                    [device](const event& one) { return one.device() == device; });
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
    // An event that finds no room for want of memory is destroyed.
    detail::report_exceptions([this] { home_->give(std::move(event_)); });
  }
  event_fence(const event_fence&) = delete;
  event_fence& operator=(const event_fence&) = delete;

  [[nodiscard]] bool is_done() const override {
    const detail::relaxed_captures relaxed;
    return event_.is_done();
  }
  void synchronize() const override {
    const detail::relaxed_captures relaxed;
    event_.synchronize();
  }
  [[nodiscard]] bool make_stream_wait(stream_ref waiter) const override {
    const detail::relaxed_captures relaxed;
    // A default stream is that of the pool's device, whichever the event is of.
    const scoped_device scope{home_->owner};
    if (detail::is_captured(waiter)) return false;
    waiter.wait(event_);
    return true;
  }

 private:
  event event_;
  std::shared_ptr<spare_events> home_;
};

namespace {

struct passed_fence final : fence {
  [[nodiscard]] bool is_done() const override { return true; }
  void synchronize() const override {}
  [[nodiscard]] bool make_stream_wait(stream_ref) const override { return true; }
};

}  // namespace

event_fences::event_fences(device_ref owner)
    : devices_{owner}, spare_{std::make_shared<spare_events>(owner)} {}

void event_fences::add(device_ref device) {
  const std::lock_guard lock{mutex_};
  if (std::find(devices_.begin(), devices_.end(), device) == devices_.end())
    devices_.push_back(device);
}

std::vector<device_ref> event_fences::devices() {
  const std::lock_guard lock{mutex_};
  return devices_;
}

void event_fences::synchronize() {
  const detail::relaxed_captures relaxed;
  for (const device_ref each : devices()) detail::wait_for_device(each);
}

std::shared_ptr<const fence> event_fences::fence_for(stream_ref stream) {
  const std::vector<device_ref> devices = this->devices();
  const detail::relaxed_captures relaxed;
  for (std::size_t i = 0;; ++i) {
    // A default stream is that of the device that is current.
    const scoped_device scope{devices[i]};
    std::optional<event> one = spare_->take(devices[i]);
    if (!one) one.emplace(devices[i]);
    try {
      if (detail::is_captured(stream)) return nullptr;
      // One call instead of a record and a query.
      if (detail::is_done_untold(stream)) return std::make_shared<passed_fence>();
      detail::record_untold(*one, stream);
      return std::make_shared<event_fence>(std::move(*one), spare_);
    } catch (const hip_error& error) {
      // HIP before 6 does not tell whose a stream is, but refuses other devices' events.
      if (error.code() == hipErrorInvalidHandle && i + 1 < devices.size()) continue;
      // The stream is gone and nobody said so before: the host provider and CUDA say InvalidHandle,
      // ROCm 6 ContextIsDestroyed and others InvalidValue, for all else that is asked here is
      // valid. Its work may still run, and whatever else they may mean, after the wait it has.
      if (error.code() != hipErrorInvalidHandle && error.code() != hipErrorContextIsDestroyed &&
          error.code() != hipErrorInvalidValue)
        throw;
      synchronize();
      return std::make_shared<passed_fence>();
    }
  }
}

}  // namespace hipvmm::mr::pool
