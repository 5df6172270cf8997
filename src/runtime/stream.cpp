// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/stream.hpp>

#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/hip_compat.hpp"
#include "runtime/check_resources.hpp"
#include "runtime/device_gate.hpp"
#include "runtime/stream.hpp"
#include "runtime/stream_watch.hpp"

namespace hipvmm {

namespace {

ihipStream_t* create(device_ref device, stream_kind kind) {
  const scoped_device scope{device};
  hipStream_t value = nullptr;
  detail::check_resources(
      hipStreamCreateWithFlags(
          &value, kind == stream_kind::blocking ? hipStreamDefault : hipStreamNonBlocking),
      "hipStreamCreateWithFlags", device, 0);
  return value;
}

bool finish(stream_ref stream) noexcept {
  try {
    const detail::relaxed_captures relaxed;
    if (detail::is_captured(stream)) return false;
    stream.synchronize();
    return true;
  } catch (const hip_error&) {
    // hipStreamDestroy reports the fault.
    return false;
  }
}

}  // namespace

stream_ref stream_ref::legacy_default() noexcept {
  return stream_ref{static_cast<ihipStream_t*>(nullptr)};
}

stream_ref stream_ref::per_thread_default() noexcept { return stream_ref{hipStreamPerThread}; }

bool stream_ref::is_default() const noexcept { return hip_compat::is_legacy_stream(get()); }

bool stream_ref::is_per_thread_default() const noexcept { return *this == per_thread_default(); }

void stream_ref::synchronize() const {
  const detail::stream_use use{get(), false};
  detail::check_stream(hipStreamSynchronize(get()), "hipStreamSynchronize", get());
  use.note_passed();
}

void stream_ref::synchronize_no_throw() const noexcept {
  detail::report_exceptions([this] { synchronize(); });
}

bool detail::is_done_without_notify(stream_ref stream) {
  const hipError_t result = hipStreamQuery(stream.get());
  if (is_not_ready(result)) return false;
  check_stream(result, "hipStreamQuery", stream.get());
  return true;
}

bool stream_ref::is_done() const {
  const detail::stream_use use{get(), true};
  if (!detail::is_done_without_notify(*this)) return false;
  use.note_passed();
  return true;
}

bool stream_ref::is_capturing() const { return detail::is_capturing(get()); }

void detail::require_not_captured(const char* function, stream_ref stream) {
  if (stream.is_capturing())
    throw std::invalid_argument{
        std::string{function} +
        ": the stream is being captured into a graph, and its work is "
        "covered by no event and no wait; name a stream that is not captured, or call "
        "it when the capture has ended"};
}

stream::stream(stream_kind kind) : stream{device_ref::current(), kind} {}

stream::stream(device_ref device, stream_kind kind)
    : value_{create(device, kind)}, device_{device} {
  try {
    detail::note_stream_begin(value_);
  } catch (...) {
    detail::report(hipStreamDestroy(value_), "hipStreamDestroy");
    throw;
  }
}

stream::~stream() {
  if (value_ == nullptr || process_.is_of_parent()) return;
  const hipError_t result = [this] {
    detail::stream_end end{stream_ref{value_}, device_};
    detail::note_stream_end(value_);
    const detail::pool_search searches;  // before the device's gate, as in device_wait
    end.begin();
    return hipStreamDestroy(value_);
  }();
  detail::report(result, "hipStreamDestroy");
}

ihipStream_t* stream::release() noexcept {
  if (value_ != nullptr) detail::note_stream_release(value_);
  return std::exchange(value_, nullptr);
}

stream& stream::operator=(stream&& other) noexcept {
  stream moved{std::move(other)};
  std::swap(value_, moved.value_);
  std::swap(device_, moved.device_);
  std::swap(process_, moved.process_);
  return *this;
}

stream_ref stream::ref() const {
  if (value_ == nullptr)
    throw std::invalid_argument{"the stream is empty: it was moved from or released"};
  return stream_ref{value_};
}

namespace detail {

stream_end::stream_end(stream_ref stream, device_ref device) noexcept
    : device_{device}, is_missed_by_waits_{!waits_count_ending_streams() && !finish(stream)} {}

void stream_end::begin() noexcept {
  if (is_missed_by_waits_) no_wait_ = keep_waits_out(device_.ordinal());
}

}  // namespace detail
}  // namespace hipvmm
