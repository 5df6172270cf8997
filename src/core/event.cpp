// SPDX-License-Identifier: MIT
#include <hipvmm/core/event.hpp>

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
  if (value_ != nullptr) detail::report(hipEventDestroy(value_), "hipEventDestroy");
}

event& event::operator=(event&& other) noexcept {
  event moved{std::move(other)};
  std::swap(value_, moved.value_);
  std::swap(device_, moved.device_);
  order_.swap(moved.order_);
  return *this;
}

void detail::record_untold(const event& recorded, stream_ref stream) {
  recorded.order_.state_.fetch_add(recorded_order::one_recording);
  check(hipEventRecord(recorded.value_, stream.get()), "hipEventRecord");
}

void event::record(stream_ref stream) {
  detail::event_recording told{*this, stream};
  check(hipEventRecord(value_, stream.get()), "hipEventRecord");
  told.note_success();
}

void event::synchronize() const {
  const detail::event_use use{*this};
  check(hipEventSynchronize(value_), "hipEventSynchronize");
  use.note_passed();
}

bool event::is_done() const {
  const detail::event_use use{*this};
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
