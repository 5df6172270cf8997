// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "graph_fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

constexpr auto unsupported = hipErrorStreamCaptureUnsupported;
constexpr auto implicit = hipErrorStreamCaptureImplicit;
constexpr auto invalidated = hipErrorStreamCaptureInvalidated;

// A call in a capture: its result, and that of the end of the capture.
struct captured_call {
  std::string says;
  std::function<hipError_t()> call;
  answer gives;
  answer end = hipErrorStreamCaptureInvalidated;
};

void check_in_capture(hipStream_t stream, hipStreamCaptureMode mode,
                      std::initializer_list<captured_call> calls) {
  for (const captured_call& each : calls) {
    begin_capture(stream, mode);
    check_rules({{each.says, each.call, each.gives},
                 {"the end after " + each.says, [&] { return end_capture(stream); }, each.end}});
  }
}

// Objects for calls in a capture, made before it.
struct scene {
  own_stream captured;
  own_stream other;
  own_event past;
  own_event inside;
  allocation device{4096};
  std::vector<unsigned char> pageable = std::vector<unsigned char>(8192);
  void* result = nullptr;

  scene() {
    REQUIRE(hipEventRecord(past.get(), other.get()) == hipSuccess);
    REQUIRE(hipStreamSynchronize(other.get()) == hipSuccess);
  }

  // Allocates, and releases at once memory that should not have been given.
  hipError_t allocate(hipError_t (*make)(void**), hipError_t (*free)(void*)) {
    const hipError_t code = make(&result);
    if (code == hipSuccess) CHECK(free(result) == hipSuccess);
    return code;
  }
};

hipError_t in_another_thread(const std::function<hipError_t()>& call) {
  hipError_t code = hipErrorUnknown;
  std::thread{[&] { code = call(); }}.join();
  return code;
}

}  // namespace

TEST_CASE("capture: its arguments") {
  const own_stream stream;
  hipGraph_t graph = nullptr;
  hipStreamCaptureStatus status{};
  auto mode = no_such<hipStreamCaptureMode>(3);
  check_rules({
      {"the null stream", [] { return hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal); },
       unsupported},
      {"no such mode", [&] { return hipStreamBeginCapture(stream.get(), mode); }},
      {"an end without a beginning", [&] { return hipStreamEndCapture(stream.get(), &graph); },
       hipErrorIllegalState},
      {"status for nobody", [&] { return hipStreamIsCapturing(stream.get(), nullptr); }},
      {"info for nobody", [&] { return hipStreamGetCaptureInfo(stream.get(), nullptr, nullptr); }},
      {"status of the null stream", [&] { return hipStreamIsCapturing(nullptr, &status); },
       hipSuccess},
      {"exchange with nobody", [] { return hipThreadExchangeStreamCaptureMode(nullptr); }},
      {"exchange for no such mode", [&] { return hipThreadExchangeStreamCaptureMode(&mode); }},
      {"begin",
       [&] { return hipStreamBeginCapture(stream.get(), hipStreamCaptureModeThreadLocal); },
       hipSuccess},
      {"begin again",
       [&] { return hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal); },
       hipErrorIllegalState},
      {"end for nobody", [&] { return hipStreamEndCapture(stream.get(), nullptr); }},
      {"end", [&] { return end_capture(stream.get()); }, hipSuccess},
  });
}

TEST_CASE("capture: is told with its number, graph and last node") {
  const own_stream stream;
  const allocation memory{4096};
  hipStreamCaptureStatus status{};
  unsigned long long id = 7;
  hipGraph_t graph = nullptr;
  const hipGraphNode_t* last = nullptr;
  std::size_t count = 7;
  REQUIRE(hipStreamGetCaptureInfo_v2(stream.get(), &status, &id, &graph, &last, &count) ==
          hipSuccess);
  CHECK(status == hipStreamCaptureStatusNone);
  CHECK(id == 0);
  CHECK(count == 0);

  begin_capture(stream.get());
  REQUIRE(hipMemsetAsync(memory.get(), 0, 4096, stream.get()) == hipSuccess);
  REQUIRE(hipStreamGetCaptureInfo_v2(stream.get(), &status, &id, &graph, &last, &count) ==
          hipSuccess);
  CHECK(status == hipStreamCaptureStatusActive);
  CHECK(id != 0);
  REQUIRE(count == 1);
  const hipGraphNode_t node = *last;
  const recorded ended{stream.get()};
  CHECK(ended.get() == graph);
  hipGraphNode_t root = nullptr;
  REQUIRE(hipGraphGetRootNodes(graph, &root, &count) == hipSuccess);
  CHECK(root == node);
  REQUIRE(hipStreamIsCapturing(stream.get(), &status) == hipSuccess);
  CHECK(status == hipStreamCaptureStatusNone);
}

TEST_CASE("capture: a thread's mode is exchanged") {
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  REQUIRE(hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess);
  CHECK(mode == hipStreamCaptureModeGlobal);
  REQUIRE(hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess);
  CHECK(mode == hipStreamCaptureModeRelaxed);
}

TEST_CASE("capture: calls that it forbids in any mode cost it") {
  scene of;
  const hipStream_t captured = of.captured.get();
  const auto record = [&] { return hipEventRecord(of.inside.get(), captured); };
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeRelaxed}) {
    CAPTURE(mode);
    check_in_capture(
        captured, mode,
        {
            {"wait for the stream", [&] { return hipStreamSynchronize(captured); }, unsupported},
            {"ask the stream", [&] { return hipStreamQuery(captured); }, unsupported},
            {"wait for the device", [] { return hipDeviceSynchronize(); }, unsupported},
            {"a callback",
             [&] {
               return hipStreamAddCallback(
                   captured, [](hipStream_t, hipError_t, void*) {}, nullptr, 0);
             },
             unsupported},
            {"work of the null stream",
             [&] { return hipMemsetAsync(of.device.get(), 0, 64, nullptr); }, implicit},
            {"a copy that waits",
             [&] { return hipMemcpy(of.device.get(), of.pageable.data(), 64, hipMemcpyDefault); },
             implicit},
            {"a fill that waits", [&] { return hipMemset(of.device.get(), 0, 64); }, implicit},
            {"wait for what is not captured",
             [&] { return hipStreamWaitEvent(captured, of.past.get(), 0); },
             hipErrorStreamCaptureIsolation},
            {"ask a captured event",
             [&] {
               REQUIRE(record() == hipSuccess);
               return hipEventQuery(of.inside.get());
             },
             hipErrorCapturedEvent},
            {"wait for a captured event",
             [&] {
               REQUIRE(record() == hipSuccess);
               return hipEventSynchronize(of.inside.get());
             },
             hipErrorCapturedEvent},
        });
  }
}

TEST_CASE("capture: fills and copies of no bytes leave it on CUDA") {
  if (!like_cuda()) return;
  scene of;
  void* const at = of.device.get();
  check_in_capture(
      of.captured.get(), hipStreamCaptureModeGlobal,
      {
          {"a fill of rows", [&] { return hipMemset2D(at, 64, 0, 0, 4); }, hipSuccess, hipSuccess},
          {"a copy of rows",
           [&] { return hipMemcpy2D(at, 64, at, 64, 0, 4, hipMemcpyDeviceToDevice); }, hipSuccess,
           hipSuccess},
          {"a copy between devices", [&] { return hipMemcpyPeer(at, 0, at, 0, 0); }, hipSuccess,
           hipSuccess},
      });
}

TEST_CASE("capture: calls that may wait cost it unless it is relaxed") {
  scene of;
  const hipStream_t captured = of.captured.get();
  const auto make = [](void** to) { return hipMalloc(to, 4096); };
  const auto make_host = [](void** to) { return hipHostMalloc(to, 4096, 0); };
  const auto make_managed = [](void** to) {
    return hipMallocManaged(to, 4096, hipMemAttachGlobal);
  };
  const auto free = [](void* block) { return hipFree(block); };
  const auto free_host = [](void* block) { return hipHostFree(block); };
  const auto registered = [&] {
    const hipError_t code = hipHostRegister(of.pageable.data(), of.pageable.size(), 0);
    if (code == hipSuccess) CHECK(hipHostUnregister(of.pageable.data()) == hipSuccess);
    return code;
  };
  check_in_capture(
      captured, hipStreamCaptureModeGlobal,
      {
          {"hipMalloc", [&] { return of.allocate(make, free); }, unsupported},
          {"hipHostMalloc", [&] { return of.allocate(make_host, free_host); }, unsupported},
          {"hipMallocManaged", [&] { return of.allocate(make_managed, free); }, unsupported},
          {"hipHostRegister", registered, unsupported},
          {"wait for another stream", [&] { return hipStreamSynchronize(of.other.get()); },
           unsupported},
          {"ask another stream", [&] { return hipStreamQuery(of.other.get()); }, unsupported},
          {"wait for an event", [&] { return hipEventSynchronize(of.past.get()); }, unsupported},
          {"ask an event", [&] { return hipEventQuery(of.past.get()); }, unsupported},
          {"from another thread",
           [&] { return in_another_thread([&] { return hipEventQuery(of.past.get()); }); },
           unsupported},
      });
  check_in_capture(
      captured, hipStreamCaptureModeThreadLocal,
      {{"from another thread, thread-local",
        [&] { return in_another_thread([&] { return hipEventQuery(of.past.get()); }); }, hipSuccess,
        hipSuccess}});
  check_in_capture(
      captured, hipStreamCaptureModeRelaxed,
      {
          {"hipMalloc, relaxed", [&] { return make(&of.result); }, hipSuccess, hipSuccess},
          {"hipFree, relaxed", [&] { return free(of.result); }, hipSuccess, hipSuccess},
          {"hipHostMalloc, relaxed", [&] { return make_host(&of.result); }, hipSuccess, hipSuccess},
          {"hipHostFree, relaxed", [&] { return hipHostFree(of.result); }, hipSuccess, hipSuccess},
          {"ask an event, relaxed", [&] { return hipEventQuery(of.past.get()); }, hipSuccess,
           hipSuccess},
          {"wait for another stream, relaxed", [&] { return hipStreamSynchronize(of.other.get()); },
           hipSuccess, hipSuccess},
      });
}

TEST_CASE_FIXTURE(scene, "capture: what a thread in relaxed mode may do beside it") {
  const auto relaxed = [](const std::function<hipError_t()>& call) {
    return in_another_thread([&] {
      hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
      const hipError_t exchanged = hipThreadExchangeStreamCaptureMode(&mode);
      return exchanged == hipSuccess ? call() : exchanged;
    });
  };
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal}) {
    CAPTURE(mode);
    REQUIRE(hipMalloc(&result, 4096) == hipSuccess);
    check_in_capture(
        captured.get(), mode,
        {
            {"ask an event, relaxed thread",
             [&] { return relaxed([&] { return hipEventQuery(past.get()); }); }, hipSuccess,
             hipSuccess},
            {"wait for an event, relaxed thread",
             [&] { return relaxed([&] { return hipEventSynchronize(past.get()); }); }, hipSuccess,
             hipSuccess},
            {"hipFree, relaxed thread", [&] { return relaxed([&] { return hipFree(result); }); },
             hipSuccess, hipSuccess},
            {"wait for the device, relaxed thread",
             [&] { return relaxed([] { return hipDeviceSynchronize(); }); }, unsupported},
        });
  }
}

TEST_CASE_FIXTURE(scene, "capture: memory of pools in a stream that is not captured costs it") {
  check_in_capture(captured.get(), hipStreamCaptureModeGlobal,
                   {{"hipMallocAsync", [&] { return hipMallocAsync(&result, 4096, other.get()); },
                     unsupported}});
}

TEST_CASE_FIXTURE(scene, "capture: virtual memory is done at once") {
  addresses place{1};
  chunk memory;
  const hipMemAccessDesc open = open_to(0);
  check_in_capture(
      captured.get(), hipStreamCaptureModeGlobal,
      {
          {"map", [&] { return hipMemMap(place.at(0), granule(), 0, memory.get(), 0); }, hipSuccess,
           hipSuccess},
          {"open", [&] { return hipMemSetAccess(place.at(0), granule(), &open, 1); }, hipSuccess,
           hipSuccess},
          {"unmap", [&] { return hipMemUnmap(place.at(0), granule()); }, hipSuccess, hipSuccess},
      });
}

TEST_CASE_FIXTURE(scene, "capture: a launch in it costs it") {
  begin_capture(other.get());
  REQUIRE(hipMemsetAsync(device.get(), 0, 64, other.get()) == hipSuccess);
  recorded graph{other.get()};
  graph.instantiate();
  check_in_capture(
      captured.get(), hipStreamCaptureModeGlobal,
      {{"launch", [&] { return hipGraphLaunch(graph.exec(), captured.get()); }, unsupported}});
}

TEST_CASE("capture: an invalidated one is told of, and ended by its end only") {
  scene of;
  const hipStream_t captured = of.captured.get();
  hipStreamCaptureStatus status{};
  auto graph = reinterpret_cast<hipGraph_t>(std::uintptr_t{64});
  begin_capture(captured);
  REQUIRE(hipEventRecord(of.inside.get(), captured) == hipSuccess);
  check_rules({
      {"cost it", [&] { return hipStreamQuery(captured); }, unsupported},
      {"its event",
       [&] { return hipEventQuery(of.inside.get()); },
       {hipErrorCapturedEvent, hipErrorInvalidValue}},
      {"status", [&] { return hipStreamIsCapturing(captured, &status); }, hipSuccess},
      {"work", [&] { return hipMemsetAsync(of.device.get(), 0, 64, captured); }, invalidated},
      {"end", [&] { return hipStreamEndCapture(captured, &graph); }, invalidated},
      {"work after it", [&] { return hipMemsetAsync(of.device.get(), 0, 64, captured); },
       hipSuccess},
      {"wait", [&] { return hipStreamSynchronize(captured); }, hipSuccess},
  });
  CHECK(status == hipStreamCaptureStatusInvalidated);
  CHECK(graph == nullptr);
}

TEST_CASE("capture: ends where and by whom it began, with all work joined") {
  scene of;
  const hipStream_t captured = of.captured.get();
  const hipStream_t other = of.other.get();
  hipGraph_t graph = nullptr;
  const auto fork = [&] {
    REQUIRE(hipEventRecord(of.inside.get(), captured) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(other, of.inside.get(), 0) == hipSuccess);
  };
  check_in_capture(
      captured, hipStreamCaptureModeGlobal,
      {
          {"end in a stream that joined",
           [&] {
             fork();
             return hipStreamEndCapture(other, &graph);
           },
           hipErrorStreamCaptureUnmatched,
           {hipSuccess, invalidated}},
          {"end in another thread",
           [&] { return in_another_thread([&] { return hipStreamEndCapture(captured, &graph); }); },
           hipErrorStreamCaptureWrongThread,
           {hipSuccess, hipErrorIllegalState}},
          {"work that is not joined",
           [&] {
             fork();
             return hipMemsetAsync(of.device.get(), 0, 64, other);
           },
           hipSuccess, hipErrorStreamCaptureUnjoined},
      });
}

TEST_CASE_FIXTURE(scene, "capture: a wait for another one costs both") {
  const own_stream third;
  begin_capture(captured.get());
  begin_capture(third.get());
  REQUIRE(hipEventRecord(inside.get(), captured.get()) == hipSuccess);
  check_rules({
      {"wait", [&] { return hipStreamWaitEvent(third.get(), inside.get(), 0); },
       hipErrorStreamCaptureMerge},
      {"the first", [&] { return end_capture(captured.get()); }, invalidated},
      {"the second", [&] { return end_capture(third.get()); }, invalidated},
  });
}
