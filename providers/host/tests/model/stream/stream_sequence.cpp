// SPDX-License-Identifier: MIT
// Streams, events, pools of HIP's own and captures in lockstep. One thread; captures are relaxed.
// Left out, for the runtimes differ by more than a code there: pools while a stream is captured,
// questions of events then, a begin in a stream whose capture is lost, an end without a result, and
// what was destroyed.
#include "stream_sequence.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <system_error>

#include "providers/host/tests/fixtures.hpp"
#include "stream_model.hpp"

namespace hipvmm::test::model {

namespace {

constexpr unsigned seconds_of_streams = 60;
constexpr std::size_t filled_bytes = std::size_t{64} << 10U;

/// Written by the child and read by the test, even when the child crashed.
struct shared_log {
  static constexpr std::size_t lines = 16;
  std::size_t made;
  std::size_t effects;
  std::size_t refusals;
  std::array<std::array<char, 160>, lines> calls;
  std::array<char, 320> difference;
};

class stream_lockstep {
 public:
  stream_lockstep(stream_rules rules, std::uint32_t seed, shared_log& log)
      : random_{seed}, log_{log} {
    model_.rules = rules;
    for (std::size_t slot = 0; slot < stream_slots; ++slot) make_stream(slot);
    for (int device = 0; device < 2; ++device) {
      must(hipSetDevice(device));
      must(hipMalloc(&memory_[static_cast<std::size_t>(device)], filled_bytes));
    }
    must(hipSetDevice(0));
  }

  [[nodiscard]] bool differs() const { return log_.difference[0] != 0; }

  void step() {
    using member = void (stream_lockstep::*)();
    static constexpr std::array members{
        &stream_lockstep::create_event,  &stream_lockstep::record,
        &stream_lockstep::record,        &stream_lockstep::query,
        &stream_lockstep::synchronize,   &stream_lockstep::elapsed,
        &stream_lockstep::wait_event,    &stream_lockstep::destroy_event,
        &stream_lockstep::ask_held,      &stream_lockstep::create_pool,
        &stream_lockstep::destroy_pool,  &stream_lockstep::set_attribute,
        &stream_lockstep::get_attribute, &stream_lockstep::trim,
        &stream_lockstep::allocate,      &stream_lockstep::allocate,
        &stream_lockstep::deallocate,    &stream_lockstep::deallocate,
        &stream_lockstep::fill,          &stream_lockstep::fill,
        &stream_lockstep::begin,         &stream_lockstep::end,
        &stream_lockstep::end,           &stream_lockstep::is_capturing,
        &stream_lockstep::sync_stream,   &stream_lockstep::query_stream,
        &stream_lockstep::sync_device};
    const member chosen = members[below(members.size())];
    (this->*chosen)();
  }

 private:
  using state = capture_state;

  std::size_t below(std::size_t most) { return random_() % most; }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[below(values.size())];
  }

  static void must(hipError_t given) {
    if (given != hipSuccess)
      throw std::runtime_error{std::string{"what every sequence needs gave "} +
                               hipGetErrorName(given)};
  }
  void make_stream(std::size_t slot) {
    must(hipSetDevice(device_of_stream(slot)));
    must(hipStreamCreateWithFlags(&model_.streams[slot], hipStreamNonBlocking));
    must(hipSetDevice(0));
  }

  /// Names the call that is made next.
  __attribute__((format(printf, 2, 3))) void says(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    auto& line = log_.calls[log_.made++ % shared_log::lines];
    std::vsnprintf(line.data(), line.size(), format, arguments);
    va_end(arguments);
  }
  /// Whether the call had its effect.
  bool is(hipError_t expected, hipError_t given) {
    if (given != expected)
      std::snprintf(log_.difference.data(), log_.difference.size(),
                    "the runtime gave %s, the model says %s", hipGetErrorName(given),
                    hipGetErrorName(expected));
    static_cast<void>(hipGetLastError());
    ++(expected == hipSuccess ? log_.effects : log_.refusals);
    return expected == hipSuccess && given == hipSuccess;
  }
  void holds(bool condition, const char* what) {
    if (!condition) std::snprintf(log_.difference.data(), log_.difference.size(), "%s", what);
  }

  // -- events ------------------------------------------------------------------------------------

  void create_event() {
    const std::size_t slot = below(event_slots);
    auto& event = model_.events[slot];
    if (event.handle != nullptr) return;
    const unsigned flags = one_of<unsigned>(
        {hipEventDefault, hipEventDisableTiming, hipEventBlockingSync, 16U, 1U << 20U});
    const bool has_result = !one_in(8);
    const int device = one_in(3) ? 1 : 0;
    says("event[%zu] = hipEventCreateWithFlags(%s, %u) on %d", slot, has_result ? "" : "null",
         flags, device);
    must(hipSetDevice(device));
    hipEvent_t made = nullptr;
    const bool is_good = has_result && flags < 16;
    if (is(is_good ? hipSuccess : hipErrorInvalidValue,
           hipEventCreateWithFlags(has_result ? &made : nullptr, flags)))
      event = {made, flags, device};
    must(hipSetDevice(0));
  }

  void record() {
    const std::size_t slot = below(event_slots);
    const std::size_t in = below(stream_slots);
    auto& event = model_.events[slot];
    if (model_.captures[in] != state::none || model_.is_of_captured(event)) return;
    says("hipEventRecord(event[%zu], stream %zu)", slot, in);
    const bool is_there = event.handle != nullptr;
    const bool is_good = is_there && event.device == device_of_stream(in);
    if (is(is_good ? hipSuccess : hipErrorInvalidHandle,
           hipEventRecord(event.handle, model_.streams[in]))) {
      event.is_recorded = true;
      event.stream = in;
      must(hipStreamSynchronize(model_.streams[in]));
    }
  }

  void query() {
    const std::size_t slot = below(event_slots);
    auto& event = model_.events[slot];
    if (model_.is_any_captured()) return;
    says("hipEventQuery(event[%zu])", slot);
    is(event.handle != nullptr ? hipSuccess : hipErrorInvalidHandle, hipEventQuery(event.handle));
  }

  void synchronize() {
    const std::size_t slot = below(event_slots);
    auto& event = model_.events[slot];
    if (model_.is_any_captured()) return;
    says("hipEventSynchronize(event[%zu])", slot);
    is(event.handle != nullptr ? hipSuccess : hipErrorInvalidHandle,
       hipEventSynchronize(event.handle));
  }

  void elapsed() {
    const std::size_t slot = below(event_slots);
    const std::size_t other = below(event_slots);
    const auto& first = model_.events[slot];
    const auto& second = model_.events[other];
    if (model_.is_any_captured()) return;
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

  void wait_event() {
    const std::size_t slot = below(event_slots);
    const std::size_t in = below(stream_slots);
    if (model_.captures[in] != state::none) return;
    const auto& event = model_.events[slot];
    if (model_.is_any_captured()) return;
    const unsigned flags = one_in(4) ? 4 : 0;
    says("hipStreamWaitEvent(stream %zu, event[%zu], %u)", in, slot, flags);
    hipError_t expected = hipSuccess;
    if (flags != 0) expected = hipErrorInvalidValue;
    if (event.handle == nullptr) expected = hipErrorInvalidHandle;
    if (flags != 0 && event.handle == nullptr) return;  // which comes first nobody says
    if (is(expected, hipStreamWaitEvent(model_.streams[in], event.handle, flags)))
      must(hipStreamSynchronize(model_.streams[in]));
  }

  void destroy_event() {
    const std::size_t slot = below(event_slots);
    auto& event = model_.events[slot];
    if (!one_in(3) || model_.is_of_captured(event)) return;
    says("hipEventDestroy(event[%zu])", slot);
    if (is(event.handle != nullptr ? hipSuccess : hipErrorInvalidHandle,
           hipEventDestroy(event.handle)))
      event = {};
  }

  /// What is not done is not ready, and what waited is done afterwards.
  void ask_held() {
    const std::size_t slot = below(event_slots);
    const std::size_t in = below(stream_slots);
    const int device = device_of_stream(in);
    auto& event = model_.events[slot];
    if (model_.is_any_captured() || event.handle == nullptr || event.device != device) return;
    says("while streams are held: a fill in stream %zu, event[%zu] behind it, both asked", in,
         slot);
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

  // -- pools -------------------------------------------------------------------------------------

  void create_pool() {
    const std::size_t slot = below(pool_slots);
    auto& pool = model_.pools[slot];
    if (model_.is_any_captured() || pool.handle != nullptr) return;
    hipMemPoolProps wanted{};
    wanted.allocType = hipMemAllocationTypePinned;
    wanted.location = {hipMemLocationTypeDevice, 0};
    const std::size_t fault = below(8);
    if (fault == 3 && model_.rules.follows_null_properties) return;
    if (fault == 1) wanted.allocType = not_an_enumerator<hipMemAllocationType>(77);
    says("pool[%zu] = hipMemPoolCreate(), fault %zu", slot, fault);
    hipMemPool_t made = nullptr;
    const bool is_good = fault == 0 || fault > 3;
    if (is(is_good ? hipSuccess : hipErrorInvalidValue,
           hipMemPoolCreate(fault == 2 ? nullptr : &made, fault == 3 ? nullptr : &wanted)))
      pool = {made};
  }

  void destroy_pool() {
    const std::size_t slot = below(pool_slots);
    auto& pool = model_.pools[slot];
    const bool has_blocks = std::any_of(model_.blocks.begin(), model_.blocks.end(),
                                        [](const auto& each) { return each.pointer != nullptr; });
    if (model_.is_any_captured() || has_blocks || !one_in(3)) return;
    says("hipMemPoolDestroy(pool[%zu])", slot);
    if (is(pool.handle != nullptr ? hipSuccess : hipErrorInvalidValue,
           hipMemPoolDestroy(pool.handle)))
      pool = {};
  }

  void set_attribute() {
    auto& pool = model_.pools[below(pool_slots)];
    if (model_.is_any_captured() || pool.handle == nullptr) return;
    const int which = one_of({1, 2, 3, 4, 4, 5, 6, 6, 99});
    const bool has_value = !one_in(8);
    std::uint64_t value = one_of<std::uint64_t>({0, 1, 4096});
    says("hipMemPoolSetAttribute(attribute %d, %s%zu)", which, has_value ? "" : "null ",
         static_cast<std::size_t>(value));
    const bool is_mark_reset = which == 6 && value == 0 && model_.rules.resets_reserved_mark;
    const bool is_good = has_value && (which <= 4 || is_mark_reset);
    if (!is(is_good ? hipSuccess : hipErrorInvalidValue,
            hipMemPoolSetAttribute(pool.handle, not_an_enumerator<hipMemPoolAttr>(which),
                                   has_value ? &value : nullptr)))
      return;
    if (which <= 3)
      pool.reuse[static_cast<std::size_t>(which - 1)] = model_.rules.switches_by_lowest_bit
                                                            ? static_cast<int>(value & 1)
                                                            : static_cast<int>(value != 0);
    if (which == 4) pool.threshold = value;
  }

  void get_attribute() {
    const auto& pool = model_.pools[below(pool_slots)];
    if (model_.is_any_captured() || pool.handle == nullptr) return;
    const int which = one_of({1, 2, 3, 4, 5, 6, 7, 8, 99});
    const bool has_value = !one_in(8);
    says("hipMemPoolGetAttribute(attribute %d%s)", which, has_value ? "" : ", null");
    std::uint64_t value = 0;
    if (!is(has_value && which <= 8 ? hipSuccess : hipErrorInvalidValue,
            hipMemPoolGetAttribute(pool.handle, not_an_enumerator<hipMemPoolAttr>(which),
                                   has_value ? &value : nullptr)))
      return;
    if (which <= 3) {
      const int expected = pool.reuse[static_cast<std::size_t>(which - 1)];
      holds(expected < 0 || static_cast<int>(value) == expected, "another reuse switch");
    }
    if (which == 4) holds(value == pool.threshold, "another threshold");
  }

  void trim() {
    const auto& pool = model_.pools[below(pool_slots)];
    if (model_.is_any_captured()) return;
    says("hipMemPoolTrimTo(%s)", pool.handle != nullptr ? "" : "null");
    is(pool.handle != nullptr ? hipSuccess : hipErrorInvalidValue,
       hipMemPoolTrimTo(pool.handle, one_of<std::size_t>({0, 4096, std::size_t{1} << 30U})));
  }

  void allocate() {
    auto& block = model_.blocks[below(block_slots)];
    const auto& pool = model_.pools[below(pool_slots)];
    const std::size_t in = below(2);
    if (model_.is_any_captured() || block.pointer != nullptr) return;
    const bool is_of_pool = pool.handle != nullptr && one_in(2);
    const bool has_result = !one_in(10);
    const auto bytes = one_of<std::size_t>({0, 1, 4096, 100'000, std::size_t{3} << 20U});
    says("%s(%s, %zu bytes, stream %zu)", is_of_pool ? "hipMallocFromPoolAsync" : "hipMallocAsync",
         has_result ? "" : "null", bytes, in);
    void* given = nullptr;
    void** const result = has_result ? &given : nullptr;
    if (!is(has_result ? hipSuccess : hipErrorInvalidValue,
            is_of_pool ? hipMallocFromPoolAsync(result, bytes, pool.handle, model_.streams[in])
                       : hipMallocAsync(result, bytes, model_.streams[in])))
      return;
    holds((given != nullptr) == (bytes != 0), "no address, or one for no bytes");
    if (given == nullptr) return;
    must(hipMemsetAsync(given, 3, bytes, model_.streams[in]));
    must(hipStreamSynchronize(model_.streams[in]));
    block = {given, in};
  }

  void deallocate() {
    auto& block = model_.blocks[below(block_slots)];
    if (model_.is_any_captured() || block.pointer == nullptr) return;
    const std::size_t in = one_in(3) ? 1 - block.stream : block.stream;
    says("hipFreeAsync(stream %zu of a block of stream %zu)", in, block.stream);
    if (is(hipSuccess, hipFreeAsync(block.pointer, model_.streams[in]))) block = {};
    must(hipStreamSynchronize(model_.streams[in]));
  }

  // -- captures ----------------------------------------------------------------------------------

  void fill() {
    const std::size_t in = below(stream_slots);
    if (model_.captures[in] == state::lost) return;
    says("hipMemsetAsync(stream %zu)%s", in,
         model_.captures[in] == state::active ? ", captured" : "");
    const auto device = static_cast<std::size_t>(device_of_stream(in));
    is(hipSuccess, hipMemsetAsync(memory_[device], 5, 1 + below(4096), model_.streams[in]));
    if (model_.captures[in] == state::none) must(hipStreamSynchronize(model_.streams[in]));
  }

  void begin() {
    const std::size_t in = below(stream_slots);
    const int mode = one_in(6) ? 77 : static_cast<int>(hipStreamCaptureModeRelaxed);
    const bool is_null_stream = one_in(8);
    if (is_null_stream && mode == 77) return;
    says("hipStreamBeginCapture(stream %zu%s, mode %d)", in, is_null_stream ? " null" : "", mode);
    hipError_t expected = hipSuccess;
    if (mode == 77)
      expected = hipErrorInvalidValue;
    else if (is_null_stream)
      expected = hipErrorStreamCaptureUnsupported;
    else if (model_.captures[in] != state::none)
      expected = hipErrorIllegalState;
    if (model_.captures[in] == state::lost) return;
    if (mode == 77 && model_.captures[in] != state::none) return;
    if (is(expected, hipStreamBeginCapture(is_null_stream ? nullptr : model_.streams[in],
                                           not_an_enumerator<hipStreamCaptureMode>(mode))))
      model_.captures[in] = state::active;
  }

  void end() {
    const std::size_t in = below(stream_slots);
    says("hipStreamEndCapture(stream %zu)", in);
    hipGraph_t graph = nullptr;
    hipError_t expected = hipSuccess;
    if (model_.captures[in] == state::none) expected = hipErrorIllegalState;
    if (model_.captures[in] == state::lost) expected = hipErrorStreamCaptureInvalidated;
    is(expected, hipStreamEndCapture(model_.streams[in], &graph));
    if (expected == hipSuccess) {
      holds(graph != nullptr, "no graph");
      if (graph != nullptr) is(hipSuccess, hipGraphDestroy(graph));
      model_.captures[in] = state::none;
    } else if (expected == hipErrorStreamCaptureInvalidated) {
      // Some releases take such a stream for captured until it is destroyed.
      must(hipStreamDestroy(model_.streams[in]));
      for (auto& event : model_.events)
        if (event.stream == in) event.stream = stream_slots;
      make_stream(in);
      model_.captures[in] = state::none;
    }
  }

  void is_capturing() {
    const std::size_t in = below(stream_slots);
    const bool has_result = !one_in(8);
    says("hipStreamIsCapturing(stream %zu%s)", in, has_result ? "" : ", null");
    auto status = not_an_enumerator<hipStreamCaptureStatus>(99);
    if (!is(has_result ? hipSuccess : hipErrorInvalidValue,
            hipStreamIsCapturing(model_.streams[in], has_result ? &status : nullptr)))
      return;
    hipStreamCaptureStatus expected = hipStreamCaptureStatusNone;
    if (model_.captures[in] == state::active) expected = hipStreamCaptureStatusActive;
    if (model_.captures[in] == state::lost) expected = hipStreamCaptureStatusInvalidated;
    holds(status == expected, "another state of the capture");
  }

  void sync_stream() { ask_stream("hipStreamSynchronize", &hipStreamSynchronize); }
  void query_stream() { ask_stream("hipStreamQuery", &hipStreamQuery); }
  void ask_stream(const char* name, hipError_t (*call)(hipStream_t)) {
    const std::size_t in = below(stream_slots);
    state& capture = model_.captures[in];
    if (capture == state::lost) return;
    says("%s(stream %zu)%s", name, in, capture == state::active ? ", captured" : "");
    is(capture == state::none ? hipSuccess : hipErrorStreamCaptureUnsupported,
       call(model_.streams[in]));
    if (capture == state::active && model_.rules.questions_cost_captures) capture = state::lost;
  }

  void sync_device() {
    if (!one_in(4) || (model_.rules.waits_are_of_device && model_.is_any_captured())) return;
    const bool is_refused = model_.rules.waits_cost_captures && model_.is_any_captured();
    says("hipDeviceSynchronize()%s",
         model_.is_any_captured() ? ", while streams are captured" : "");
    is(is_refused ? hipErrorStreamCaptureUnsupported : hipSuccess, hipDeviceSynchronize());
    if (is_refused) model_.lose_captures();
  }

  std::mt19937 random_;
  stream_model model_;
  shared_log& log_;
  std::array<void*, 2> memory_ = {};
};

std::string last_calls(const shared_log& log, const std::string& difference) {
  std::string text;
  const std::size_t first = log.made > shared_log::lines ? log.made - shared_log::lines : 0;
  for (std::size_t i = first; i < log.made; ++i)
    text.append("  ")
        .append(std::to_string(i + 1))
        .append(": ")
        .append(log.calls[i % shared_log::lines].data())
        .append("\n");
  return text.append("  ").append(difference).append("\n");
}

}  // namespace

stream_outcome run_stream_sequence(std::string_view profile, std::uint32_t seed,
                                   std::size_t count) {
  void* const memory = ::mmap(nullptr, sizeof(shared_log), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error{errno, std::generic_category(), "no memory for the sequence"};
  auto& log = *new (memory) shared_log{};
  std::fflush(nullptr);  // what is buffered would be written twice
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error{errno, std::generic_category(), "no child process"};
  if (child == 0) {
    ::alarm(seconds_of_streams);
    for (const int each : {SIGSEGV, SIGABRT, SIGBUS}) std::signal(each, SIG_DFL);  // doctest's
    try {
      stream_lockstep both{stream_rules_of(profile), seed, log};
      while (log.made < count && !both.differs()) both.step();
    } catch (const std::exception& error) {
      std::snprintf(log.difference.data(), log.difference.size(), "%s", error.what());
    }
    // Without the runtime's own end, which would wait for captures.
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::string difference = log.difference.data();
  if (difference.empty() && WIFSIGNALED(status))
    difference = std::string{"the process was ended by "} + ::strsignal(WTERMSIG(status));
  stream_outcome ended{log.effects, log.refusals, {}};
  if (!difference.empty()) ended.difference = last_calls(log, difference);
  ::munmap(memory, sizeof(shared_log));
  return ended;
}

}  // namespace hipvmm::test::model
