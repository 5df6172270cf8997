// SPDX-License-Identifier: MIT
#include <hipvmm/core/event.hpp>

#include <stdexcept>

#include "core/check.hpp"
#include "core/stream_order.hpp"

namespace hipvmm {

using detail::check;

namespace {

ihipEvent_t* create(device_ref device, event_timing timing) {
  const scoped_device scope{device};
  hipEvent_t value = nullptr;
  check(hipEventCreateWithFlags(
            &value, timing == event_timing::enabled ? hipEventDefault : hipEventDisableTiming),
        "hipEventCreateWithFlags");
  return value;
}

}  // namespace

event::event(event_timing timing) : event{device_ref::current(), timing} {}

event::event(device_ref device, event_timing timing)
    : value_{create(device, timing)}, device_{device} {}

event::~event() {
  if (value_ == nullptr) return;
  detail::note_event_end(value_);
  detail::report(hipEventDestroy(value_), "hipEventDestroy");
}

event& event::operator=(event&& other) noexcept {
  event moved{std::move(other)};
  std::swap(value_, moved.value_);
  std::swap(device_, moved.device_);
  return *this;
}

void detail::record_untold(const event& recorded, stream_ref stream) {
  check(hipEventRecord(recorded.get(), stream.get()), "hipEventRecord");
}

void event::record(stream_ref stream) {
  detail::event_recording told{value_, stream};
  detail::record_untold(*this, stream);
  told.note_success();
}

void event::synchronize() const {
  const detail::event_use use{value_};
  check(hipEventSynchronize(value_), "hipEventSynchronize");
  use.note_passed();
}

bool event::is_done() const {
  const detail::event_use use{value_};
  const hipError_t result = hipEventQuery(value_);
  if (detail::is_not_ready(result)) return false;
  check(result, "hipEventQuery");
  use.note_passed();
  return true;
}

std::chrono::duration<float, std::milli> event::elapsed(const event& from, const event& to) {
  float milliseconds = 0;
  check(hipEventElapsedTime(&milliseconds, from.value_, to.value_), "hipEventElapsedTime");
  return std::chrono::duration<float, std::milli>{milliseconds};
}

}  // namespace hipvmm
