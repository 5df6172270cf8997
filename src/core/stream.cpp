// SPDX-License-Identifier: MIT
#include <hipvmm/core/stream.hpp>

#include <stdexcept>

#include <hipvmm/core/event.hpp>
#include "core/check.hpp"
#include "core/device_wait.hpp"
#include "core/hip_compat.hpp"
#include "core/stream_order.hpp"

namespace hipvmm {

using detail::check;

namespace {

ihipStream_t* create(device_ref device, stream_kind kind) {
  const scoped_device scope{device};
  hipStream_t value = nullptr;
  check(hipStreamCreateWithFlags(
            &value, kind == stream_kind::blocking ? hipStreamDefault : hipStreamNonBlocking),
        "hipStreamCreateWithFlags");
  return value;
}

}  // namespace

stream_ref stream_ref::legacy_default() noexcept {
  return stream_ref{static_cast<ihipStream_t*>(nullptr)};
}

stream_ref stream_ref::per_thread_default() noexcept { return stream_ref{hipStreamPerThread}; }

bool stream_ref::is_default() const noexcept { return hip_compat::is_legacy_stream(get()); }

bool stream_ref::is_per_thread_default() const noexcept { return *this == per_thread_default(); }

void stream_ref::synchronize() const {
  const detail::stream_use use{*this, false};
  check(hipStreamSynchronize(get()), "hipStreamSynchronize");
  use.note_passed();
}

void stream_ref::synchronize_no_throw() const noexcept {
  detail::report_exceptions([this] { synchronize(); });
}

bool detail::is_done_untold(stream_ref stream) {
  const hipError_t result = hipStreamQuery(stream.get());
  if (is_not_ready(result)) return false;
  check(result, "hipStreamQuery");
  return true;
}

bool stream_ref::is_done() const {
  const detail::stream_use use{*this, true};
  if (!detail::is_done_untold(*this)) return false;
  use.note_passed();
  return true;
}

bool stream_ref::is_capturing() const {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  check(hipStreamIsCapturing(get(), &status), "hipStreamIsCapturing");
  return status != hipStreamCaptureStatusNone;
}

void stream_ref::wait(const event& event) const {
  const detail::event_use use{event};
  check(hipStreamWaitEvent(get(), use.handle(), 0), "hipStreamWaitEvent");
  use.note_follows(*this);
}

stream::stream(stream_kind kind) : stream{device_ref::current(), kind} {}

stream::stream(device_ref device, stream_kind kind)
    : value_{create(device, kind)}, device_{device} {}

stream::~stream() {
  if (value_ == nullptr) return;
  const hipError_t result = [this] {
    detail::stream_end end{stream_ref{value_}, device_};
    detail::note_stream_end(stream_ref{value_});
    end.begin();
    return hipStreamDestroy(value_);
  }();
  detail::report(result, "hipStreamDestroy");
}

stream& stream::operator=(stream&& other) noexcept {
  stream moved{std::move(other)};
  std::swap(value_, moved.value_);
  std::swap(device_, moved.device_);
  return *this;
}

stream_ref stream::ref() const {
  if (value_ == nullptr)
    throw std::invalid_argument{"the stream is empty: it was moved from or released"};
  return stream_ref{value_};
}

}  // namespace hipvmm
