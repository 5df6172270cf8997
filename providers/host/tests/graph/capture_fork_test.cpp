// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "capture_fixtures.hpp"

using namespace hipvmm::test;

TIDY_CASE("capture: a stream that waits for a captured event joins the capture") {
  const stream origin;
  const stream forked;
  const event out;
  const event back;
  begin_capture(origin.get());
  add_node(origin.get());  // 0
  fork_to(forked.get(), origin.get(), out.get());
  CHECK(status_of(forked.get()) == hipStreamCaptureStatusActive);
  add_node(forked.get());  // 1
  add_node(origin.get());  // 2
  fork_to(origin.get(), forked.get(), back.get());
  add_node(origin.get());  // 3
  const recorded_graph graph{end_capture(origin.get())};
  CHECK(status_of(forked.get()) == hipStreamCaptureStatusNone);
  using edge = std::pair<int, int>;
  CHECK(graph.nodes().size() == 4);
  CHECK(graph.edges() == std::vector<edge>{{0, 1}, {0, 2}, {2, 3}, {1, 3}});
}

TIDY_CASE("capture: an event stands for the work recorded before it, not after it") {
  const stream origin;
  const stream forked;
  const event out;
  const event back;
  begin_capture(origin.get());
  add_node(origin.get());  // 0
  REQUIRE(hipEventRecord(out.get(), origin.get()) == hipSuccess);
  add_node(origin.get());  // 1
  REQUIRE(hipStreamWaitEvent(forked.get(), out.get(), 0) == hipSuccess);
  add_node(forked.get());  // 2
  fork_to(origin.get(), forked.get(), back.get());
  const recorded_graph graph{end_capture(origin.get())};
  CHECK(graph.edges() == std::vector<std::pair<int, int>>{{0, 1}, {0, 2}});
}

TIDY_CASE("capture: it reaches streams of other devices") {
  const stream origin;
  const stream forked{hipStreamNonBlocking, 1};
  const event out;
  begin_capture(origin.get());
  fork_to(forked.get(), origin.get(), out.get());
  CHECK(status_of(forked.get()) == hipStreamCaptureStatusActive);
  const recorded_graph graph{end_capture(origin.get())};
}

TIDY_CASE("capture: a stream that joined and recorded nothing need not come back") {
  const stream origin;
  const stream forked;
  const event out;
  begin_capture(origin.get());
  add_node(origin.get());
  fork_to(forked.get(), origin.get(), out.get());
  add_node(origin.get());
  const recorded_graph graph{end_capture(origin.get())};
  CHECK(graph.nodes().size() == 2);
}

TIDY_CASE("capture: work of a stream that did not come back is an error that ends it") {
  for (const bool came_back_before : {false, true}) {
    CAPTURE(came_back_before);
    const stream origin;
    const stream forked;
    const event out;
    begin_capture(origin.get());
    fork_to(forked.get(), origin.get(), out.get());
    add_node(forked.get());
    if (came_back_before) {
      fork_to(origin.get(), forked.get(), out.get());
      add_node(forked.get());
    }
    end_capture_with(hipErrorStreamCaptureUnjoined, origin.get());
    CHECK(status_of(origin.get()) == hipStreamCaptureStatusNone);
    CHECK(status_of(forked.get()) == hipStreamCaptureStatusNone);
  }
}

TIDY_CASE("capture: work of a stream that was destroyed is missed too") {
  const stream origin;
  const event out;
  begin_capture(origin.get());
  {
    const stream forked;
    fork_to(forked.get(), origin.get(), out.get());
    add_node(forked.get());
  }
  CHECK(status_of(origin.get()) == hipStreamCaptureStatusActive);
  end_capture_with(hipErrorStreamCaptureUnjoined, origin.get());
}

TIDY_CASE("capture: only its origin ends it, and nothing else begins one in its streams") {
  const stream origin;
  const stream forked;
  const event out;
  hipGraph_t graph = nullptr;
  begin_capture(origin.get());
  fork_to(forked.get(), origin.get(), out.get());
  CHECK(hipStreamEndCapture(forked.get(), &graph) == hipErrorStreamCaptureUnmatched);
  CHECK(hipStreamBeginCapture(forked.get(), hipStreamCaptureModeGlobal) == hipErrorIllegalState);
  const recorded_graph recorded{end_capture(origin.get())};
}

WORK_CASE("capture: an event that was never recorded holds nothing back") {
  const event never;
  begin_capture(work.get());
  CHECK(hipStreamWaitEvent(work.get(), never.get(), 0) == hipSuccess);
  const recorded_graph graph{end_capture(work.get())};
}

WORK_CASE("capture: the null stream cannot join") {
  const event mark;
  begin_capture(work.get());
  REQUIRE(hipEventRecord(mark.get(), work.get()) == hipSuccess);
  CHECK(hipStreamWaitEvent(nullptr, mark.get(), 0) == hipErrorStreamCaptureUnsupported);
  end_capture_with(hipErrorStreamCaptureInvalidated, work.get());
}

WORK_CASE("capture: an event recorded in it is of no use after it, until recorded again") {
  const event mark;
  begin_capture(work.get());
  REQUIRE(hipEventRecord(mark.get(), work.get()) == hipSuccess);
  const recorded_graph graph{end_capture(work.get())};
  float milliseconds = 0;
  constexpr auto captured = hipErrorCapturedEvent;
  check_refusals({
      {"query", hipEventQuery(mark.get()), captured},
      {"synchronize", hipEventSynchronize(mark.get()), captured},
      {"wait", hipStreamWaitEvent(work.get(), mark.get(), 0), captured},
      {"elapsed", hipEventElapsedTime(&milliseconds, mark.get(), mark.get()), captured},
  });
  CHECK(hipEventRecord(mark.get(), work.get()) == hipSuccess);
  CHECK(hipEventSynchronize(mark.get()) == hipSuccess);
}
