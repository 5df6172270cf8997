// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <thread>

#include "capture_fixtures.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr hipStreamCaptureMode modes[] = {
    hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed};

}  // namespace

WORK_CASE("capture: arguments outside the rules are refused and end no capture") {
  const stream other;
  hipGraph_t graph = nullptr;
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  const auto gone = as_handle<hipStream_t>(64);
  begin_capture(work.get());
  check_refusals({
      {"begin in no stream", hipStreamBeginCapture(gone, hipStreamCaptureModeGlobal),
       hipErrorInvalidHandle},
      {"end no stream", hipStreamEndCapture(gone, &graph), hipErrorInvalidHandle},
      {"end the null stream", hipStreamEndCapture(nullptr, &graph), hipErrorIllegalState},
      {"status of no stream", hipStreamIsCapturing(gone, &status), hipErrorInvalidHandle},
      {"info of no stream", hipStreamGetCaptureInfo(gone, &status, &id), hipErrorInvalidHandle},
      {"more info null",
       hipStreamGetCaptureInfo_v2(work.get(), nullptr, &id, nullptr, nullptr, nullptr)},
      {"a copy that cannot be", hipMemcpyAsync(nullptr, &id, 8, hipMemcpyDefault, work.get())},
  });
  CHECK(graph == nullptr);
  const recorded_graph recorded{end_capture(work.get())};
}

TIDY_CASE("capture: work is recorded and does not run before the graph is launched") {
  for (const hipStreamCaptureMode mode : modes) {
    const stream work;
    bool ran = false;
    begin_capture(work.get(), mode);
    REQUIRE(hipLaunchHostFunc(work.get(), set_flag, &ran) == hipSuccess);
    const recorded_graph graph{end_capture(work.get())};
    CHECK(work.wait() == hipSuccess);
    CHECK_FALSE(ran);
    const instance runs{graph.get()};
    CHECK(runs.launch(work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(ran);
  }
}

WORK_CASE("capture: only work submitted between its begin and its end is recorded") {
  bool before = false;
  bool after = false;
  held_streams held;
  REQUIRE(hipLaunchHostFunc(work.get(), set_flag, &before) == hipSuccess);
  begin_capture(work.get());
  add_node(work.get());
  const recorded_graph graph{end_capture(work.get())};
  REQUIRE(hipLaunchHostFunc(work.get(), set_flag, &after) == hipSuccess);
  CHECK(graph.nodes().size() == 1);
  held.release();
  CHECK(work.wait() == hipSuccess);
  CHECK(before);
  CHECK(after);
}

WORK_CASE("capture: a stream can be captured again, into another graph") {
  begin_capture(work.get());
  add_node(work.get());
  const recorded_graph first{end_capture(work.get())};
  begin_capture(work.get());
  const recorded_graph second{end_capture(work.get())};
  CHECK(first.nodes().size() == 1);
  CHECK(second.nodes().empty());
}

TIDY_CASE("capture: other streams go on as ever") {
  const stream work{hipStreamDefault};
  const stream other{hipStreamDefault};
  const thread_mode relaxed{hipStreamCaptureModeRelaxed};
  bool ran = false;
  begin_capture(work.get());
  REQUIRE(hipLaunchHostFunc(other.get(), set_flag, &ran) == hipSuccess);
  CHECK(other.wait() == hipSuccess);
  CHECK(ran);
  const recorded_graph graph{end_capture(work.get())};
  CHECK(graph.nodes().empty());
}

TIDY_CASE("capture: the stream of a thread can be captured, and its end ends the capture") {
  std::thread{[] {
    hipGraph_t graph = nullptr;
    static_cast<void>(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeGlobal));
    static_cast<void>(hipLaunchHostFunc(hipStreamPerThread, do_nothing, nullptr));
    CHECK(hipStreamEndCapture(hipStreamPerThread, &graph) == hipSuccess);
    CHECK(hipGraphDestroy(graph) == hipSuccess);
    CHECK(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeGlobal) == hipSuccess);
  }}.join();
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

WORK_CASE("capture: information names the capture, its graph and what comes next after") {
  unsigned long long ids[2] = {};
  for (unsigned long long& id : ids) {
    begin_capture(work.get());
    add_node(work.get());
    hipStreamCaptureStatus status{};
    hipGraph_t graph = nullptr;
    const hipGraphNode_t* last = nullptr;
    size_t last_count = 99;
    CHECK(hipStreamGetCaptureInfo(work.get(), &status, nullptr) == hipSuccess);
    CHECK(status == hipStreamCaptureStatusActive);
    CHECK(hipStreamGetCaptureInfo_v2(work.get(), &status, &id, &graph, &last, &last_count) ==
          hipSuccess);
    CHECK(status == hipStreamCaptureStatusActive);
    REQUIRE(last_count == 1);
    const hipGraphNode_t next_after = *last;
    const recorded_graph recorded{end_capture(work.get())};
    CHECK(recorded.get() == graph);
    CHECK(recorded.nodes() == std::vector{next_after});
  }
  CHECK(ids[0] != 0);
  CHECK(ids[0] != ids[1]);
}

WORK_CASE("capture: information about a stream that is not captured is empty") {
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  unsigned long long id = 99;
  hipGraph_t graph = as_handle<hipGraph_t>(1);
  const hipGraphNode_t* last = as_handle<const hipGraphNode_t*>(8);
  size_t last_count = 99;
  CHECK(hipStreamGetCaptureInfo_v2(work.get(), &status, &id, &graph, &last, &last_count) ==
        hipSuccess);
  CHECK(status == hipStreamCaptureStatusNone);
  CHECK(id == 0);
  CHECK(graph == nullptr);
  CHECK(last == nullptr);
  CHECK(last_count == 0);
}

WORK_CASE("capture: only the thread that began it ends it, unless it is relaxed") {
  for (const hipStreamCaptureMode mode : modes) {
    CAPTURE(mode);
    hipGraph_t graph = nullptr;
    const auto end = [&] { return hipStreamEndCapture(work.get(), &graph); };
    begin_capture(work.get(), mode);
    const bool relaxed = mode == hipStreamCaptureModeRelaxed;
    CHECK(in_another_thread(end) == (relaxed ? hipSuccess : hipErrorStreamCaptureWrongThread));
    if (!relaxed) graph = end_capture(work.get());
    const recorded_graph recorded{graph};
  }
}

TIDY_CASE("capture: a stream that is destroyed ends the capture that began in it") {
  const stream forked;
  const event mark;
  {
    const stream origin;
    begin_capture(origin.get());
    fork_to(forked.get(), origin.get(), mark.get());
    add_node(forked.get());
  }
  CHECK(status_of(forked.get()) == hipStreamCaptureStatusNone);
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

TIDY_CASE("capture: virtual memory may be changed meanwhile, and is changed at once") {
  const stream work{hipStreamDefault};
  begin_capture(work.get());
  {
    const mapped mapping{granule};
    CHECK(access_at(mapping.at(), 0) == hipMemAccessFlagsProtReadWrite);
    hipMemGenericAllocationHandle_t handle = nullptr;
    CHECK(hipMemRetainAllocationHandle(&handle, mapping.at()) == hipSuccess);
    CHECK(hipMemRelease(handle) == hipSuccess);
    CHECK(live_objects().mappings == 1);
  }
  CHECK(live_objects().mappings == 0);
  const recorded_graph graph{end_capture(work.get())};
  CHECK(graph.nodes().empty());
}

TIDY_CASE("capture: many threads may each capture a stream of their own") {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        hipStream_t work = nullptr;
        hipGraph_t graph = nullptr;
        size_t count = 0;
        static_cast<void>(hipStreamCreateWithFlags(&work, hipStreamNonBlocking));
        static_cast<void>(hipStreamBeginCapture(work, hipStreamCaptureModeThreadLocal));
        for (int n = 0; n < 3; ++n) {
          static_cast<void>(hipLaunchHostFunc(work, do_nothing, nullptr));
        }
        static_cast<void>(hipStreamEndCapture(work, &graph));
        static_cast<void>(hipGraphGetNodes(graph, nullptr, &count));
        CHECK(count == 3);
        static_cast<void>(hipGraphDestroy(graph));
        static_cast<void>(hipStreamDestroy(work));
      }
    });
  }
  for (std::thread& each : threads) each.join();
}
