// SPDX-License-Identifier: MIT
#include <algorithm>

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
  lose(*found->capture);
  throw failure{hipErrorStreamCaptureUnsupported};
}

void capture_set::refuse_unsafe() {
  if (!any()) return;
  const guard lock{mutex_};
  refuse(capture_check::by_mode, hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_waiting_copy() {
  if (!any()) return;
  const guard lock{mutex_};
  refuse(rules_.waiting_copies, hipErrorStreamCaptureImplicit);
}

void capture_set::refuse_managed() {
  if (!any()) return;
  const guard lock{mutex_};
  refuse(rules_.managed_memory, hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_pool_call(const stream_queue& queue, pool_step step) {
  if (!any() || rules_.pool_calls == pool_check::none) return;
  const guard lock{mutex_};
  if (rules_.pool_calls == pool_check::allocation_by_mode) {
    if (step != pool_step::free) refuse(capture_check::by_mode, hipErrorStreamCaptureUnsupported);
    return;
  }
  if (step == pool_step::allocate_from_pool) return;
  const bool is_refused = std::any_of(streams_.begin(), streams_.end(), [&](const auto& each) {
    const stream_queue& captured = *each.second.queue;
    return captured.order() == stream_order::blocking && captured.device() == queue.device();
  });
  if (is_refused && queue.order() == stream_order::null) {
    throw crash{
        "follows a null pointer for memory of a pool in the null stream, while a blocking "
        "stream is captured",
        "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr"};
  }
  require(!is_refused, hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_wait_for(const stream_queue& queue) {
  refuse_unrecorded(queue);
  const bool is_taken =
      queue.order() == stream_order::null && rules_.null_stream_work == beside_capture::taken;
  if (!any() || is_taken) return;
  const guard lock{mutex_};
  refuse(rules_.captured_waits, hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_wait_for_device(int device) {
  if (!any() || rules_.captured_device == device_wait::no_capture) return;
  const guard lock{mutex_};
  if (rules_.captured_device == device_wait::any_capture) {
    // Until all have ended, because an invalidated one refuses as well.
    for (const auto& [queue, each] : streams_) lose(*each.capture);
    require(streams_.empty(), hipErrorStreamCaptureUnsupported);
    return;
  }
  refuse_where([device](const participant& each) { return each.queue->device() == device; },
               hipErrorStreamCaptureUnsupported);
  refuse(capture_check::by_mode, hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_wait_for(const event_state& event) {
  refuse_captured(event, rules_.wait_for_captured_event);
  if (!any()) return;
  const guard lock{mutex_};
  refuse(event.is_recorded() ? rules_.captured_waits : rules_.unrecorded_waits,
         hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_question(const event_state& event) {
  refuse_captured(event);
  if (!any()) return;
  const guard lock{mutex_};
  refuse(rules_.event_questions, hipErrorStreamCaptureUnsupported);
}

void capture_set::refuse_captured(const event_state& event) {
  refuse_captured(event, rules_.question_of_captured_event);
}

void capture_set::refuse_captured(const event_state& event, hipError_t refusal) {
  const std::shared_ptr<const captured_mark> mark = event.captured();
  if (mark == nullptr) return;
  const guard lock{mutex_};
  const sequence capture = mark->sequence.lock();
  const bool is_lost = capture != nullptr && !capture->valid;
  if (capture != nullptr) lose(*capture);
  const hipError_t code = is_lost ? rules_.event_of_invalidated : refusal;
  require(code == hipSuccess, code);
}

template <class Forbids>
void capture_set::refuse_where(Forbids&& forbids, hipError_t code) {
  bool refused = false;
  for (const auto& [queue, each] : streams_) {
    const bool counts = each.capture->valid || rules_.lost == lost_capture::refuses;
    if (!counts || !forbids(each)) continue;
    lose(*each.capture);
    refused = true;
  }
  require(!refused, code);
}

void capture_set::refuse(capture_check check, hipError_t code) {
  const hipStreamCaptureMode mode = thread_capture_mode();
  if (check == capture_check::by_mode && rules_.refused_in_capture == refusal_cost::first_kind)
    refuse(capture_check::own, code);
  if (check == capture_check::global_first) {
    if (mode == hipStreamCaptureModeGlobal) refuse(capture_check::global, code);
    return refuse(capture_check::own, code);
  }
  if (check == capture_check::global_too) {
    if (mode != hipStreamCaptureModeRelaxed) refuse(capture_check::global, code);
    return refuse(capture_check::own, code);
  }
  refuse_where(
      [check, mode, self = calling_thread()](const participant& each) {
        const capture_sequence& capture = *each.capture;
        const bool is_own = capture.thread == self && capture.mode != hipStreamCaptureModeRelaxed;
        const bool is_global = capture.mode == hipStreamCaptureModeGlobal;
        const bool looks = mode != hipStreamCaptureModeRelaxed;
        switch (check) {
          case capture_check::by_mode:
            return looks && (is_own || (is_global && mode == hipStreamCaptureModeGlobal));
          case capture_check::any_thread:
            return is_own || is_global;
          case capture_check::own:
            return looks && is_own;
          case capture_check::global:
            return is_global;
          case capture_check::all:
            return true;
          case capture_check::global_first:
          case capture_check::global_too:
          case capture_check::none:
            break;
        }
        return false;
      },
      code);
}

void capture_set::lose(capture_sequence& refusing) const noexcept {
  if (rules_.refused_in_capture != refusal_cost::nothing) refusing.valid = false;
}

void capture_set::refuse_null_stream(const stream_queue& queue) {
  if (rules_.null_stream_work == beside_capture::taken) return;
  refuse_where([&queue](const participant& each) { return excludes_null_stream(each, queue); },
               hipErrorStreamCaptureImplicit);
}

}  // namespace hipvmm::host_provider
