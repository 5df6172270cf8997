// SPDX-License-Identifier: MIT
// Captures in lockstep: in all three modes, begun and ended in one of two threads, and the effect
// of calls beside them.
#include <chrono>
#include <cstddef>
#include <functional>

#include "providers/host/tests/fixtures.hpp"
#include "stream_lockstep.hpp"

namespace hipvmm::test::model {

namespace {

const char* text_of(const stream_capture& of) {
  if (of.state == capture_state::active) return ", captured";
  return of.state == capture_state::lost ? ", whose capture is lost" : "";
}

// Some releases are not done with the work of a stream when a host function behind it runs.
hipError_t when_ready(const std::function<hipError_t()>& call) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  hipError_t code = call();
  while (code == hipErrorNotReady && std::chrono::steady_clock::now() < last) code = call();
  return code;
}

void add_one(void* count) { ++*static_cast<std::atomic<int>*>(count); }

}  // namespace

void stream_lockstep::fill() {
  const std::size_t in = below(stream_slots);
  const std::size_t thread = below(threads);
  const stream_capture& capture = model_.captures[in];
  says("hipMemsetAsync(stream %zu) in thread %zu%s", in, thread, text_of(capture));
  const auto device = static_cast<std::size_t>(device_of_stream(in));
  const std::size_t bytes = 1 + below(4096);
  is(capture.state == state::lost ? hipErrorStreamCaptureInvalidated : hipSuccess,
     in_thread(thread,
               [&] { return hipMemsetAsync(memory_[device], 5, bytes, model_.streams[in]); }));
  if (capture.state == state::none) drain(in);
}

// All streams are non-blocking.
void stream_lockstep::fill_null_stream() {
  const std::size_t thread = below(threads);
  says("hipMemsetAsync(null stream) in thread %zu", thread);
  is(hipSuccess, in_thread(thread, [&] { return hipMemsetAsync(memory_[0], 5, 64, nullptr); }));
}

void stream_lockstep::fill_and_wait() {
  const std::size_t thread = below(threads);
  says("hipMemset() in thread %zu", thread);
  const bool is_refused = model_.refuses(model_.rules.waiting_copies, thread);
  is(is_refused ? hipErrorStreamCaptureImplicit : hipSuccess,
     in_thread(thread, [&] { return hipMemset(memory_[0], 5, 64); }));
}

void stream_lockstep::allocate_now() {
  const std::size_t thread = below(threads);
  says("hipMalloc() in thread %zu", thread);
  void* given = nullptr;
  const bool is_refused = model_.refuses(capture_check::by_mode, thread);
  if (is(is_refused ? hipErrorStreamCaptureUnsupported : hipSuccess,
         in_thread(thread, [&] { return hipMalloc(&given, 64); })))
    unfreed_.push_back(given);
  if (model_.is_any_captured()) return;
  for (void* each : unfreed_) must(hipFree(each));
  unfreed_.clear();
}

void stream_lockstep::allocate_managed() {
  const std::size_t thread = below(threads);
  // There 7.2.4 refuses a call at no cost, without a rule that could be found.
  if (model_.rules.refuses_managed_at_random && model_.is_any_captured()) return;
  says("hipMallocManaged() in thread %zu", thread);
  void* given = nullptr;
  const bool is_refused = model_.refuses(model_.rules.managed_memory, thread);
  if (is(is_refused ? hipErrorStreamCaptureUnsupported : hipSuccess,
         in_thread(thread, [&] { return hipMallocManaged(&given, 64, hipMemAttachGlobal); })))
    unfreed_.push_back(given);
}

void stream_lockstep::count_calls(int more) {
  expected_ += more;
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (called_ < expected_ && std::chrono::steady_clock::now() < last) std::this_thread::yield();
  holds(called_ == expected_, "another number of calls of host functions");
}

// No wait for a stream is allowed beside every capture.
void stream_lockstep::drain(std::size_t in) {
  must(hipLaunchHostFunc(model_.streams[in], add_one, &called_));
  count_calls(1);
}

void stream_lockstep::launch_host_function() {
  const std::size_t in = below(stream_slots);
  const std::size_t thread = below(threads);
  stream_capture& capture = model_.captures[in];
  if (capture.state == state::lost) return;  // 7.2.4 takes it
  says("hipLaunchHostFunc(stream %zu) in thread %zu%s", in, thread, text_of(capture));
  if (!is(hipSuccess, in_thread(thread, [&] {
            return hipLaunchHostFunc(model_.streams[in], add_one, &called_);
          })))
    return;
  if (capture.state == state::active) ++capture.recorded;
  count_calls(capture.state == state::none ? 1 : 0);
}

void stream_lockstep::add_callback() {
  const std::size_t in = below(stream_slots);
  const std::size_t thread = below(threads);
  stream_capture& capture = model_.captures[in];
  if (capture.state == state::lost) return;
  says("hipStreamAddCallback(stream %zu) in thread %zu%s", in, thread, text_of(capture));
  const auto call = [](hipStream_t, hipError_t, void* count) {
    ++*static_cast<std::atomic<int>*>(count);
  };
  const bool is_taken = capture.state == state::none || model_.rules.calls_back_at_once;
  const bool is_called =
      is(is_taken ? hipSuccess : hipErrorStreamCaptureUnsupported, in_thread(thread, [&] {
           return hipStreamAddCallback(model_.streams[in], call, &called_, 0);
         }));
  if (!is_taken) model_.lose(capture);
  count_calls(is_called ? 1 : 0);
}

void stream_lockstep::exchange_mode() {
  const std::size_t thread = below(threads);
  const int wanted = one_in(6) ? 77 : static_cast<int>(below(3));
  says("hipThreadExchangeStreamCaptureMode(%d) in thread %zu", wanted, thread);
  auto mode = not_an_enumerator<hipStreamCaptureMode>(wanted);
  if (!is(wanted == 77 ? hipErrorInvalidValue : hipSuccess,
          in_thread(thread, [&] { return hipThreadExchangeStreamCaptureMode(&mode); })))
    return;
  holds(mode == model_.thread_modes[thread], "another mode of the thread");
  model_.thread_modes[thread] = static_cast<hipStreamCaptureMode>(wanted);
}

void stream_lockstep::begin() {
  const std::size_t in = below(stream_slots);
  const std::size_t thread = below(threads);
  const int mode = one_in(6) ? 77 : static_cast<int>(below(3));
  const bool is_null_stream = one_in(8);
  if (is_null_stream && mode == 77) return;
  stream_capture& capture = model_.captures[in];
  if (capture.state == state::lost) return;
  if (mode == 77 && capture.state != state::none) return;
  says("hipStreamBeginCapture(stream %zu%s, mode %d) in thread %zu", in,
       is_null_stream ? " null" : "", mode, thread);
  hipError_t expected = hipSuccess;
  if (mode == 77)
    expected = hipErrorInvalidValue;
  else if (is_null_stream)
    expected = hipErrorStreamCaptureUnsupported;
  else if (capture.state != state::none)
    expected = hipErrorIllegalState;
  if (is(expected, in_thread(thread, [&] {
           return hipStreamBeginCapture(is_null_stream ? nullptr : model_.streams[in],
                                        not_an_enumerator<hipStreamCaptureMode>(mode));
         })))
    capture = {state::active, static_cast<hipStreamCaptureMode>(mode), thread, 0};
  if (capture.state != state::none) model_.last_modes[in] = capture.mode;
}

// Recorded work runs when its graph is launched, and not before.
void stream_lockstep::launch(hipGraph_t graph, std::size_t in, int recorded) {
  hipGraphExec_t made = nullptr;
  is(hipSuccess, hipGraphInstantiate(&made, graph, nullptr, nullptr, 0));
  if (made == nullptr) return;
  is(hipSuccess, hipGraphLaunch(made, model_.streams[in]));
  is(hipSuccess, hipStreamSynchronize(model_.streams[in]));
  count_calls(recorded);
  is(hipSuccess, hipGraphExecDestroy(made));
}

void stream_lockstep::end() {
  const std::size_t in = below(stream_slots);
  stream_capture& capture = model_.captures[in];
  const bool is_elsewhere = one_in(4);
  const std::size_t thread = is_elsewhere ? below(threads) : capture.thread;
  says("hipStreamEndCapture(stream %zu) in thread %zu%s", in, thread, text_of(capture));
  hipGraph_t graph = nullptr;
  hipError_t expected = hipSuccess;
  if (capture.state == state::none) expected = hipErrorIllegalState;
  if (capture.state == state::lost) expected = hipErrorStreamCaptureInvalidated;
  const bool is_foreign = capture.state != state::none && capture.thread != thread &&
                          capture.mode != hipStreamCaptureModeRelaxed;
  if (is_foreign) expected = hipErrorStreamCaptureWrongThread;
  is(expected, in_thread(thread, [&] { return hipStreamEndCapture(model_.streams[in], &graph); }));
  if (expected == hipSuccess) {
    const int recorded = capture.recorded;
    capture = {};
    holds(graph != nullptr, "no graph");
    if (graph == nullptr) return;
    if (recorded > 0 && !model_.is_any_captured()) launch(graph, in, recorded);
    is(hipSuccess, hipGraphDestroy(graph));
  } else if (expected == hipErrorStreamCaptureInvalidated) {
    // Some releases take such a stream for captured until it is destroyed.
    must(hipStreamDestroy(model_.streams[in]));
    for (auto& event : model_.events)
      if (event.stream == in) event.stream = stream_slots;
    make_stream(in);
    capture = {};
  } else if (is_foreign && model_.rules.foreign_end_costs) {
    capture = {};
  }
}

void stream_lockstep::is_capturing() {
  const std::size_t in = below(stream_slots);
  const std::size_t thread = below(threads);
  const bool has_result = !one_in(8);
  says("hipStreamIsCapturing(stream %zu%s) in thread %zu", in, has_result ? "" : ", null", thread);
  auto status = not_an_enumerator<hipStreamCaptureStatus>(99);
  if (!is(has_result ? hipSuccess : hipErrorInvalidValue, in_thread(thread, [&] {
            return hipStreamIsCapturing(model_.streams[in], has_result ? &status : nullptr);
          })))
    return;
  hipStreamCaptureStatus expected = hipStreamCaptureStatusNone;
  if (model_.captures[in].state == state::active) expected = hipStreamCaptureStatusActive;
  if (model_.captures[in].state == state::lost) expected = hipStreamCaptureStatusInvalidated;
  holds(status == expected, "another state of the capture");
}

bool stream_lockstep::is_asked_by_last_mode(std::size_t in) const {
  return model_.rules.looks_at_last_mode && model_.is_any_captured() &&
         model_.captures[in].state == state::none &&
         model_.last_modes[in] != hipStreamCaptureModeGlobal;
}

void stream_lockstep::ask_stream(const char* name, hipError_t (*call)(hipStream_t)) {
  const std::size_t in = below(stream_slots);
  const std::size_t thread = below(threads);
  stream_capture& capture = model_.captures[in];
  if (capture.state == state::lost) return;
  if (is_asked_by_last_mode(in)) return;
  says("%s(stream %zu) in thread %zu%s", name, in, thread, text_of(capture));
  const bool is_captured = capture.state == state::active;
  const bool is_refused = is_captured || model_.refuses(model_.rules.waits, thread);
  is(is_refused ? hipErrorStreamCaptureUnsupported : hipSuccess,
     in_thread(thread, [&] { return when_ready([&] { return call(model_.streams[in]); }); }));
  if (is_captured) model_.lose(capture);
}

void stream_lockstep::ask_event(const char* name, hipError_t (*call)(hipEvent_t)) {
  const auto& event = model_.events[below(event_slots)];
  const std::size_t thread = below(threads);
  if (model_.rules.looks_at_event_streams) return;
  if (event.handle == nullptr || !model_.is_any_captured() || model_.is_of_captured(event)) return;
  if (event.is_recorded && event.stream == stream_slots) return;  // its stream is gone
  if (event.is_recorded && is_asked_by_last_mode(event.stream)) return;
  says("%s(event of stream %zu) in thread %zu, beside a capture", name, event.stream, thread);
  const auto& rules = model_.rules;
  const capture_check waits = event.is_recorded ? rules.waits : rules.unrecorded_waits;
  const bool is_refused =
      model_.refuses(call == &hipEventQuery ? rules.event_questions : waits, thread);
  is(is_refused ? hipErrorStreamCaptureUnsupported : hipSuccess,
     in_thread(thread, [&] { return when_ready([&] { return call(event.handle); }); }));
}

void stream_lockstep::sync_device() {
  if (!one_in(4) || (model_.rules.waits_are_of_device && model_.is_any_captured())) return;
  const std::size_t thread = below(threads);
  const bool is_refused = model_.rules.waits_cost_captures && model_.is_any_captured();
  says("hipDeviceSynchronize() in thread %zu%s", thread,
       model_.is_any_captured() ? ", while streams are captured" : "");
  is(is_refused ? hipErrorStreamCaptureUnsupported : hipSuccess,
     in_thread(thread, [] { return hipDeviceSynchronize(); }));
  if (is_refused)
    for (stream_capture& each : model_.captures) model_.lose(each);
}

}  // namespace hipvmm::test::model
