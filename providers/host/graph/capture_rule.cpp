// SPDX-License-Identifier: MIT
#include "base/failure.hpp"
#include "graph/capture.hpp"

namespace hipvmm::host_provider {

std::uint64_t calling_thread() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

hipStreamCaptureMode& thread_capture_mode() noexcept {
  thread_local hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  return mode;
}

void capture_set::refuse_unrecorded(const stream_queue& queue) {
  if (!any()) return;
  const guard lock{mutex_};
  refuse_null_stream(queue);
  const participant* const found = find_valid(queue);
  if (found == nullptr) return;
  found->capture->valid = false;
  throw failure{hipErrorStreamCaptureUnsupported};
}

void capture_set::refuse_unsafe() {
  if (!any()) return;
  const guard lock{mutex_};
  refuse_by_mode(hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_waiting_free() {
  if (!any()) return;
  if (rules_.captured_free == waiting_free::by_mode) return refuse_unsafe();
  const guard lock{mutex_};
  refuse_where([](const participant&) { return true; }, hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_waiting_copy() {
  if (!any()) return;
  const guard lock{mutex_};
  refuse_by_mode(hipErrorStreamCaptureImplicit);
}

void capture_set::refuse_wait_for(const stream_queue& queue) {
  if (rules_.asked_capture == captured_question::costs_nothing_relaxed) {
    const guard lock{mutex_};
    const participant* const found = find_valid(queue);
    require(found == nullptr || found->capture->mode != hipStreamCaptureModeRelaxed,
            hipErrorStreamCaptureUnsupported);
  }
  refuse_unrecorded(queue);
  refuse_unsafe();
}

void capture_set::refuse_wait_for_device(int device) {
  if (!any() || rules_.captured_device == device_wait::no_capture) return;
  const guard lock{mutex_};
  if (rules_.captured_device == device_wait::any_capture) {
    // Until each of them has ended: an invalidated one refuses as well.
    for (const auto& [queue, each] : streams_) each.capture->valid = false;
    require(streams_.empty(), hipErrorStreamCaptureUnsupported);
    return;
  }
  refuse_where([device](const participant& each) { return each.queue->device() == device; },
               hipErrorStreamCaptureUnsupported);
  refuse_by_mode(hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_wait_for(const event_state& event) {
  refuse_captured(event);
  refuse_unsafe();
}

void capture_set::refuse_captured(const event_state& event) {
  const std::shared_ptr<const captured_mark> mark = event.captured();
  if (mark == nullptr) return;
  const guard lock{mutex_};
  const sequence capture = mark->sequence.lock();
  const bool is_lost = capture != nullptr && !capture->valid;
  if (capture != nullptr) capture->valid = false;
  const hipError_t code = is_lost ? rules_.event_of_invalidated : hipErrorCapturedEvent;
  require(code == hipSuccess, code);
}

template <class Forbids>
void capture_set::refuse_where(Forbids&& forbids, hipError_t code) {
  bool refused = false;
  for (const auto& [queue, each] : streams_) {
    if (!each.capture->valid || !forbids(each)) continue;
    each.capture->valid = false;
    refused = true;
  }
  require(!refused, code);
}

void capture_set::refuse_by_mode(hipError_t code) {
  const hipStreamCaptureMode mode = thread_capture_mode();
  if (mode == hipStreamCaptureModeRelaxed) return;
  refuse_where(
      [mode, self = calling_thread()](const participant& each) {
        const capture_sequence& capture = *each.capture;
        if (capture.thread == self) return capture.mode != hipStreamCaptureModeRelaxed;
        return mode == hipStreamCaptureModeGlobal && capture.mode == hipStreamCaptureModeGlobal;
      },
      code);
}

void capture_set::refuse_null_stream(const stream_queue& queue) {
  refuse_where([&queue](const participant& each) { return excludes_null_stream(each, queue); },
               hipErrorStreamCaptureImplicit);
}

}  // namespace hipvmm::host_provider
