// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <functional>

#include "capture_fixtures.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr auto unsupported = hipErrorStreamCaptureUnsupported;
constexpr auto implicit = hipErrorStreamCaptureImplicit;

struct forbidden {
  const char* what;
  std::function<hipError_t()> call;
  hipError_t expected;
};

// Objects that calls of each kind may need, made before any capture.
struct scene {
  stream other;
  event mark;
  allocation device{4096};
  pinned host{4096};
  pool idle;
  std::vector<std::byte> bytes = bytes_of(4096, 1);
  void* result = nullptr;

  scene() {
    REQUIRE(hipEventRecord(mark.get(), other.get()) == hipSuccess);
    REQUIRE(hipEventSynchronize(mark.get()) == hipSuccess);
  }
};

hipGraph_t empty_graph() {
  hipGraph_t made = nullptr;
  REQUIRE(hipGraphCreate(&made, 0) == hipSuccess);
  return made;
}

hipError_t create_pool() {
  const hipMemPoolProps properties = pool_on(0);
  hipMemPool_t made = nullptr;
  return hipMemPoolCreate(&made, &properties);
}

std::vector<forbidden> unsafe_calls(scene& of) {
  void** const to = &of.result;
  return {
      {"hipMalloc", [=] { return hipMalloc(to, 64); }, unsupported},
      {"hipFree", [&of] { return hipFree(of.device.at()); }, unsupported},
      {"hipFreeAsync of hipMalloc memory",
       [&of] { return hipFreeAsync(of.device.at(), of.other.get()); }, unsupported},
      {"hipHostMalloc", [=] { return hipHostMalloc(to, 64, 0); }, unsupported},
      {"hipHostFree", [&of] { return hipHostFree(of.host.at()); }, unsupported},
      {"hipHostRegister", [&of] { return hipHostRegister(of.bytes.data(), 64, 0); }, unsupported},
      {"hipMallocManaged", [=] { return hipMallocManaged(to, 64, hipMemAttachGlobal); },
       unsupported},
      {"hipMallocAsync", [=, &of] { return hipMallocAsync(to, 64, of.other.get()); }, unsupported},
      {"hipMallocFromPoolAsync",
       [=, &of] { return hipMallocFromPoolAsync(to, 64, of.idle.get(), of.other.get()); },
       unsupported},
      {"hipMemPoolCreate", create_pool, unsupported},
      {"hipDeviceSetMemPool", [&of] { return hipDeviceSetMemPool(0, of.idle.get()); }, unsupported},
      {"hipMemcpy",
       [&of] { return hipMemcpy(of.device.at(), of.bytes.data(), 64, hipMemcpyDefault); },
       implicit},
      {"hipMemcpyWithStream",
       [&of] {
         return hipMemcpyWithStream(of.device.at(), of.bytes.data(), 64, hipMemcpyDefault,
                                    of.other.get());
       },
       implicit},
      {"hipMemcpyPeer", [&of] { return hipMemcpyPeer(of.device.at(), 0, of.host.at(), 0, 64); },
       implicit},
      {"hipMemset", [&of] { return hipMemset(of.device.at(), 0, 64); }, implicit},
      {"hipDeviceReset", [] { return hipDeviceReset(); }, unsupported},
      {"hipStreamSynchronize", [&of] { return hipStreamSynchronize(of.other.get()); }, unsupported},
      {"hipStreamQuery", [&of] { return hipStreamQuery(of.other.get()); }, unsupported},
      {"hipEventSynchronize", [&of] { return hipEventSynchronize(of.mark.get()); }, unsupported},
      {"hipEventQuery", [&of] { return hipEventQuery(of.mark.get()); }, unsupported},
  };
}

// Each call costs the capture it is made in.
void check_each(const std::vector<forbidden>& calls, const stream& work,
                hipStreamCaptureMode mode) {
  for (const forbidden& each : calls) {
    CAPTURE(each.what);
    const hipvmm_host_counters before = live_objects();
    begin_capture(work.get(), mode);
    CHECK(each.call() == each.expected);
    CHECK(status_of(work.get()) == hipStreamCaptureStatusInvalidated);
    end_capture_with(hipErrorStreamCaptureInvalidated, work.get());
    CHECK(live_objects() == before);
  }
}

}  // namespace

WORK_CASE("capture: calls that may wait are refused, and cost the capture") {
  scene of;
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal}) {
    CAPTURE(mode);
    check_each(unsafe_calls(of), work, mode);
  }
}

WORK_CASE("capture: memory cannot be unregistered meanwhile") {
  std::vector<std::byte> bytes(64);
  REQUIRE(hipHostRegister(bytes.data(), 64, 0) == hipSuccess);
  begin_capture(work.get());
  CHECK(hipHostUnregister(bytes.data()) == unsupported);
  end_capture_with(hipErrorStreamCaptureInvalidated, work.get());
  CHECK(hipHostUnregister(bytes.data()) == hipSuccess);
}

TIDY_CASE("capture: who may not wait depends on the modes of the capture and of the thread") {
  constexpr auto global = hipStreamCaptureModeGlobal;
  constexpr auto local = hipStreamCaptureModeThreadLocal;
  constexpr auto relaxed = hipStreamCaptureModeRelaxed;
  struct row {
    hipStreamCaptureMode capture;
    hipStreamCaptureMode thread;
    bool by_its_thread;
    bool by_another;
  };
  const stream work;
  const stream other;
  for (const auto& [capture, thread, by_its_thread, by_another] : {
           row{global, global, true, true},
           row{global, local, true, false},
           row{global, relaxed, false, false},
           row{local, global, true, false},
           row{local, local, true, false},
           row{local, relaxed, false, false},
           row{relaxed, global, false, false},
           row{relaxed, local, false, false},
           row{relaxed, relaxed, false, false},
       }) {
    CAPTURE(capture);
    CAPTURE(thread);
    const auto wait = [&, mode = thread] {
      const thread_mode own{mode};
      return hipStreamSynchronize(other.get());
    };
    for (const bool here : {true, false}) {
      const bool forbidden = here ? by_its_thread : by_another;
      begin_capture(work.get(), capture);
      CHECK((here ? wait() : in_another_thread(wait)) == (forbidden ? unsupported : hipSuccess));
      if (forbidden) {
        end_capture_with(hipErrorStreamCaptureInvalidated, work.get());
      } else {
        const recorded_graph graph{end_capture(work.get())};
      }
    }
  }
}

TEST_CASE("capture: a thread starts in global mode, and an exchange gives the mode before") {
  const auto first = [] {
    auto mode = hipStreamCaptureModeRelaxed;
    return hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess &&
                   mode == hipStreamCaptureModeGlobal
               ? hipSuccess
               : hipErrorUnknown;
  };
  CHECK(in_another_thread(first) == hipSuccess);
  const thread_mode local{hipStreamCaptureModeThreadLocal};
  auto mode = hipStreamCaptureModeRelaxed;
  CHECK(hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess);
  CHECK(mode == hipStreamCaptureModeThreadLocal);
  CHECK(hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess);
  CHECK(mode == hipStreamCaptureModeRelaxed);
}

TIDY_CASE("capture: what is captured cannot be waited for, in any mode") {
  const thread_mode relaxed{hipStreamCaptureModeRelaxed};
  const stream work;
  const event mark;
  const auto record = [&] { return hipEventRecord(mark.get(), work.get()); };
  float milliseconds = 0;
  const auto elapsed = [&] {
    REQUIRE(record() == hipSuccess);
    return hipEventElapsedTime(&milliseconds, mark.get(), mark.get());
  };
  const auto synchronize = [&] {
    REQUIRE(record() == hipSuccess);
    return hipEventSynchronize(mark.get());
  };
  const auto query = [&] {
    REQUIRE(record() == hipSuccess);
    return hipEventQuery(mark.get());
  };
  check_each(
      {
          {"hipStreamSynchronize", [&] { return hipStreamSynchronize(work.get()); }, unsupported},
          {"hipStreamQuery", [&] { return hipStreamQuery(work.get()); }, unsupported},
          {"hipDeviceSynchronize", [] { return hipDeviceSynchronize(); }, unsupported},
          {"hipDeviceReset", [] { return hipDeviceReset(); }, unsupported},
          {"hipEventSynchronize", synchronize, hipErrorCapturedEvent},
          {"hipEventQuery", query, hipErrorCapturedEvent},
          {"hipEventElapsedTime", elapsed, hipErrorCapturedEvent},
      },
      work, hipStreamCaptureModeRelaxed);
}

TIDY_CASE("capture: no device can be waited for until it has ended, lost or not") {
  const thread_mode relaxed{hipStreamCaptureModeRelaxed};
  const stream work;
  for (const int device : {0, 1}) {
    CAPTURE(device);
    begin_capture(work.get(), hipStreamCaptureModeRelaxed);
    REQUIRE(hipSetDevice(device) == hipSuccess);
    for (int attempt = 0; attempt < 3; ++attempt) CHECK(hipDeviceSynchronize() == unsupported);
    CHECK(status_of(work.get()) == hipStreamCaptureStatusInvalidated);
    CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
    end_capture_with(hipErrorStreamCaptureInvalidated, work.get());
    CHECK(hipDeviceSynchronize() == hipSuccess);
    REQUIRE(hipSetDevice(0) == hipSuccess);
  }
}

TIDY_CASE("capture: no device can be waited for until the stream of a lost one is destroyed") {
  {
    const stream work;
    begin_capture(work.get());
    CHECK(hipDeviceSynchronize() == unsupported);
    CHECK(hipDeviceSynchronize() == unsupported);
  }
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

TIDY_CASE("capture: of a blocking stream shuts the null stream of its device, in any mode") {
  const thread_mode relaxed{hipStreamCaptureModeRelaxed};
  const stream work{hipStreamDefault};
  const event mark;
  const event never;
  const allocation device{64};
  const pinned host{64};
  void* result = nullptr;
  const recorded_graph empty{empty_graph()};
  const instance nothing{empty.get()};
  check_each(
      {
          {"copy",
           [&] { return hipMemcpyAsync(device.at(), host.at(), 64, hipMemcpyDefault, nullptr); },
           implicit},
          {"copy that waits",
           [&] { return hipMemcpy(device.at(), host.at(), 64, hipMemcpyDefault); }, implicit},
          {"fill", [&] { return hipMemsetAsync(device.at(), 0, 64, nullptr); }, implicit},
          {"host function", [] { return hipLaunchHostFunc(nullptr, do_nothing, nullptr); },
           implicit},
          {"allocation", [&] { return hipMallocAsync(&result, 64, nullptr); }, implicit},
          {"event record", [&] { return hipEventRecord(mark.get(), nullptr); }, implicit},
          {"event wait", [&] { return hipStreamWaitEvent(nullptr, never.get(), 0); }, implicit},
          {"synchronize", [] { return hipStreamSynchronize(nullptr); }, implicit},
          {"graph", [&] { return nothing.launch(nullptr); }, implicit},
          {"query", [] { return hipStreamQuery(nullptr); }, implicit},
      },
      work, hipStreamCaptureModeRelaxed);
}

TIDY_CASE("capture: the null stream of another device, or beside a non-blocking stream, is free") {
  for (const auto& [flags, device] : {std::pair{hipStreamDefault, 1}, {hipStreamNonBlocking, 0}}) {
    const stream work{static_cast<unsigned>(flags)};
    REQUIRE(hipSetDevice(device) == hipSuccess);
    begin_capture(work.get());
    CHECK(hipLaunchHostFunc(nullptr, do_nothing, nullptr) == hipSuccess);
    const recorded_graph graph{end_capture(work.get())};
    REQUIRE(hipSetDevice(0) == hipSuccess);
  }
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

TIDY_CASE("capture: asking about the null stream while it is shut is refused and costs nothing") {
  const stream work{hipStreamDefault};
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  begin_capture(work.get());
  check_refusals({
      {"status", hipStreamIsCapturing(nullptr, &status), implicit},
      {"info", hipStreamGetCaptureInfo(nullptr, &status, &id), implicit},
      {"more info", hipStreamGetCaptureInfo_v2(nullptr, &status, &id, nullptr, nullptr, nullptr),
       implicit},
  });
  const recorded_graph graph{end_capture(work.get())};
  CHECK(status_of(nullptr) == hipStreamCaptureStatusNone);
}

WORK_CASE("capture: work that graphs have no node for is refused, and costs the capture") {
  const recorded_graph empty{empty_graph()};
  const instance nothing{empty.get()};
  void* managed = nullptr;
  REQUIRE(hipMallocManaged(&managed, 4096, hipMemAttachGlobal) == hipSuccess);
  int last_prefetch = 99;
  check_each(
      {
          {"prefetch", [&] { return hipMemPrefetchAsync(managed, 4096, 0, work.get()); },
           unsupported},
          {"attachment",
           [&] { return hipStreamAttachMemAsync(work.get(), managed, 0, hipMemAttachGlobal); },
           unsupported},
          {"graph", [&] { return nothing.launch(work.get()); }, unsupported},
      },
      work, hipStreamCaptureModeGlobal);
  CHECK(hipMemRangeGetAttribute(&last_prefetch, sizeof(int),
                                hipMemRangeAttributeLastPrefetchLocation, managed,
                                4096) == hipSuccess);
  CHECK(last_prefetch == hipInvalidDeviceId);
  CHECK(hipFree(managed) == hipSuccess);
}

TIDY_CASE("capture: one that is invalidated refuses everything in its streams, and nothing else") {
  const stream work{hipStreamDefault};
  const stream forked;
  const event mark;
  void* result = nullptr;
  begin_capture(work.get());
  fork_to(forked.get(), work.get(), mark.get());
  REQUIRE(hipStreamQuery(work.get()) == unsupported);
  constexpr auto invalidated = hipErrorStreamCaptureInvalidated;
  check_refusals({
      {"host function", hipLaunchHostFunc(work.get(), do_nothing, nullptr), invalidated},
      {"in the forked stream", hipLaunchHostFunc(forked.get(), do_nothing, nullptr), invalidated},
      {"event record", hipEventRecord(mark.get(), work.get()), invalidated},
      {"event wait", hipStreamWaitEvent(nullptr, mark.get(), 0), invalidated},
      {"allocation", hipMallocAsync(&result, 64, work.get()), invalidated},
      {"synchronize", hipStreamSynchronize(work.get()), invalidated},
      {"begin", hipStreamBeginCapture(work.get(), hipStreamCaptureModeGlobal),
       hipErrorIllegalState},
  });
  CHECK(hipLaunchHostFunc(nullptr, do_nothing, nullptr) == hipSuccess);
  const allocation allowed{64};
  end_capture_with(invalidated, work.get());
  CHECK(status_of(forked.get()) == hipStreamCaptureStatusNone);
}
