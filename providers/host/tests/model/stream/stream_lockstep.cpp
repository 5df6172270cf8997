// SPDX-License-Identifier: MIT
// Streams and events in lockstep. Left out, because the runtimes differ by more than a code there:
// pools and records of events while a stream is captured, questions of events that were recorded in
// a stream that is captured now, a begin in a stream whose capture is lost, an end without a
// result, and destroyed objects.
#include "stream_lockstep.hpp"

#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "support/host/host_provider.hpp"

namespace hipvmm::test::model {

namespace {

constexpr std::size_t filled_bytes = std::size_t{64} << 10U;

}  // namespace

second_thread::second_thread() : thread_{[this] { serve(); }} {}

second_thread::~second_thread() {
  {
    const std::lock_guard<std::mutex> lock{mutex_};
    has_ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

hipError_t second_thread::make(const std::function<hipError_t()>& call) {
  std::unique_lock<std::mutex> lock{mutex_};
  next_ = &call;
  changed_.notify_all();
  changed_.wait(lock, [this] { return next_ == nullptr; });
  return code_;
}

void second_thread::serve() {
  std::unique_lock<std::mutex> lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return next_ != nullptr || has_ended_; });
    if (next_ == nullptr) return;
    code_ = (*next_)();
    static_cast<void>(hipGetLastError());
    next_ = nullptr;
    changed_.notify_all();
  }
}

stream_lockstep::stream_lockstep(stream_rules rules, std::uint32_t seed, shared_log& log)
    : random_{seed}, log_{log} {
  model_.rules = rules;
  for (std::size_t slot = 0; slot < stream_slots; ++slot) make_stream(slot);
  for (int device = 0; device < 2; ++device) {
    must(hipSetDevice(device));
    must(hipMalloc(&memory_[static_cast<std::size_t>(device)], filled_bytes));
  }
  must(hipSetDevice(0));
}

void stream_lockstep::step() {
  using member = void (stream_lockstep::*)();
  static constexpr std::array members{&stream_lockstep::create_event,
                                      &stream_lockstep::record,
                                      &stream_lockstep::record,
                                      &stream_lockstep::query,
                                      &stream_lockstep::synchronize,
                                      &stream_lockstep::elapsed,
                                      &stream_lockstep::wait_event,
                                      &stream_lockstep::destroy_event,
                                      &stream_lockstep::ask_held,
                                      &stream_lockstep::create_pool,
                                      &stream_lockstep::destroy_pool,
                                      &stream_lockstep::set_attribute,
                                      &stream_lockstep::get_attribute,
                                      &stream_lockstep::trim,
                                      &stream_lockstep::allocate,
                                      &stream_lockstep::allocate,
                                      &stream_lockstep::deallocate,
                                      &stream_lockstep::deallocate,
                                      &stream_lockstep::fill,
                                      &stream_lockstep::fill,
                                      &stream_lockstep::fill_null_stream,
                                      &stream_lockstep::fill_and_wait,
                                      &stream_lockstep::allocate_now,
                                      &stream_lockstep::allocate_managed,
                                      &stream_lockstep::add_callback,
                                      &stream_lockstep::launch_host_function,
                                      &stream_lockstep::exchange_mode,
                                      &stream_lockstep::launch_host_function,
                                      &stream_lockstep::begin,
                                      &stream_lockstep::end,
                                      &stream_lockstep::end,
                                      &stream_lockstep::end,
                                      &stream_lockstep::is_capturing,
                                      &stream_lockstep::sync_stream,
                                      &stream_lockstep::query_stream,
                                      &stream_lockstep::sync_event,
                                      &stream_lockstep::query_event,
                                      &stream_lockstep::sync_device};
  const member chosen = members[below(members.size())];
  (this->*chosen)();
}

void stream_lockstep::must(hipError_t given) {
  if (given != hipSuccess)
    throw std::runtime_error{std::string{"what every sequence needs gave "} +
                             hipGetErrorName(given)};
}

void stream_lockstep::make_stream(std::size_t slot) {
  must(hipSetDevice(device_of_stream(slot)));
  must(hipStreamCreateWithFlags(&model_.streams[slot], hipStreamNonBlocking));
  must(hipSetDevice(0));
  model_.last_modes[slot] = hipStreamCaptureModeGlobal;
}

void stream_lockstep::says(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  auto& line = log_.calls[log_.made++ % shared_log::lines];
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
}

bool stream_lockstep::is(hipError_t expected, hipError_t given) {
  if (given != expected)
    std::snprintf(log_.difference.data(), log_.difference.size(),
                  "the runtime gave %s, the model says %s", hipGetErrorName(given),
                  hipGetErrorName(expected));
  static_cast<void>(hipGetLastError());
  ++(expected == hipSuccess ? log_.effects : log_.refusals);
  return expected == hipSuccess && given == hipSuccess;
}

void stream_lockstep::holds(bool condition, const char* what) {
  if (!condition) std::snprintf(log_.difference.data(), log_.difference.size(), "%s", what);
}

hipError_t stream_lockstep::in_thread(std::size_t thread, const std::function<hipError_t()>& call) {
  return thread == 0 ? call() : other_.make(call);
}

void stream_lockstep::create_event() {
  const std::size_t slot = below(event_slots);
  auto& event = model_.events[slot];
  if (event.handle != nullptr) return;
  const unsigned flags = one_of<unsigned>(
      {hipEventDefault, hipEventDisableTiming, hipEventBlockingSync, 16U, 1U << 20U});
  const bool has_result = !one_in(8);
  const int device = one_in(3) ? 1 : 0;
  says("event[%zu] = hipEventCreateWithFlags(%s, %u) on %d", slot, has_result ? "" : "null", flags,
       device);
  must(hipSetDevice(device));
  hipEvent_t made = nullptr;
  const bool is_good = has_result && flags < 16;
  if (is(is_good ? hipSuccess : hipErrorInvalidValue,
         hipEventCreateWithFlags(has_result ? &made : nullptr, flags)))
    event = {made, flags, device};
  must(hipSetDevice(0));
}

void stream_lockstep::record() {
  const std::size_t slot = below(event_slots);
  const std::size_t in = below(stream_slots);
  auto& event = model_.events[slot];
  if (model_.captures[in].state != state::none || model_.is_of_captured(event)) return;
  says("hipEventRecord(event[%zu], stream %zu)", slot, in);
  const bool is_there = event.handle != nullptr;
  const bool is_good = is_there && event.device == device_of_stream(in);
  if (is(is_good ? hipSuccess : hipErrorInvalidHandle,
         hipEventRecord(event.handle, model_.streams[in]))) {
    event.is_recorded = true;
    event.stream = in;
    drain(in);
  }
}

void stream_lockstep::query() {
  const std::size_t slot = below(event_slots);
  auto& event = model_.events[slot];
  if (model_.is_any_captured() || model_.is_followed(event)) return;
  says("hipEventQuery(event[%zu])", slot);
  is(event.handle != nullptr ? hipSuccess : hipErrorInvalidHandle, hipEventQuery(event.handle));
}

void stream_lockstep::synchronize() {
  const std::size_t slot = below(event_slots);
  auto& event = model_.events[slot];
  if (model_.is_any_captured() || model_.is_followed(event)) return;
  says("hipEventSynchronize(event[%zu])", slot);
  is(event.handle != nullptr ? hipSuccess : hipErrorInvalidHandle,
     hipEventSynchronize(event.handle));
}

void stream_lockstep::elapsed() {
  const std::size_t slot = below(event_slots);
  const std::size_t other = below(event_slots);
  const auto& first = model_.events[slot];
  const auto& second = model_.events[other];
  if (model_.is_any_captured()) return;
  if (model_.is_followed(first) || model_.is_followed(second)) return;
  const bool has_result = !one_in(8);
  says("hipEventElapsedTime(%s, event[%zu], event[%zu])", has_result ? "" : "null", slot, other);
  float time = -1;
  const auto is_good = [](const stream_model::event_state& each) {
    return each.handle != nullptr && each.is_recorded && each.flags != hipEventDisableTiming;
  };
  hipError_t expected = hipSuccess;
  if (!has_result)
    expected = hipErrorInvalidValue;
  else if (!is_good(first) || !is_good(second) || first.device != second.device)
    expected = hipErrorInvalidHandle;
  is(expected, hipEventElapsedTime(has_result ? &time : nullptr, first.handle, second.handle));
}

void stream_lockstep::wait_event() {
  const std::size_t slot = below(event_slots);
  const std::size_t in = below(stream_slots);
  if (model_.captures[in].state != state::none) return;
  const auto& event = model_.events[slot];
  if (model_.is_any_captured() || model_.is_followed(event)) return;
  const unsigned flags = one_in(4) ? 4 : 0;
  says("hipStreamWaitEvent(stream %zu, event[%zu], %u)", in, slot, flags);
  hipError_t expected = hipSuccess;
  if (flags != 0) expected = hipErrorInvalidValue;
  if (event.handle == nullptr) expected = hipErrorInvalidHandle;
  if (flags != 0 && event.handle == nullptr) return;  // which comes first nobody says
  if (is(expected, hipStreamWaitEvent(model_.streams[in], event.handle, flags)))
    must(hipStreamSynchronize(model_.streams[in]));
}

void stream_lockstep::destroy_event() {
  const std::size_t slot = below(event_slots);
  auto& event = model_.events[slot];
  if (!one_in(3) || model_.is_of_captured(event)) return;
  says("hipEventDestroy(event[%zu])", slot);
  if (is(event.handle != nullptr ? hipSuccess : hipErrorInvalidHandle,
         hipEventDestroy(event.handle)))
    event = {};
}

/// Work not done is not ready, and is done after a wait.
void stream_lockstep::ask_held() {
  const std::size_t slot = below(event_slots);
  const std::size_t in = below(stream_slots);
  const int device = device_of_stream(in);
  auto& event = model_.events[slot];
  if (model_.is_any_captured() || event.handle == nullptr || event.device != device) return;
  says("while streams are held: a fill in stream %zu, event[%zu] behind it, both asked", in, slot);
  {
    held_streams held;
    must(hipMemsetAsync(memory_[static_cast<std::size_t>(device)], 1, 64, model_.streams[in]));
    must(hipEventRecord(event.handle, model_.streams[in]));
    is(hipErrorNotReady, hipEventQuery(event.handle));
    is(hipErrorNotReady, hipStreamQuery(model_.streams[in]));
  }
  event.is_recorded = true;
  event.stream = in;
  is(hipSuccess, hipStreamSynchronize(model_.streams[in]));
  is(hipSuccess, hipEventQuery(event.handle));
}

}  // namespace hipvmm::test::model
