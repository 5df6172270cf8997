// SPDX-License-Identifier: MIT
// Two streams join the capture of a third and wait for each other, one of them for the third in
// between: waits without a cycle, which a graph can express.
#include "defect.hpp"

namespace {

void wait(hipStream_t waiter, hipStream_t other) {
  hipEvent_t reached;
  REQUIRE(hipEventCreateWithFlags(&reached, hipEventDisableTiming));
  REQUIRE(hipEventRecord(reached, other));
  REQUIRE(hipStreamWaitEvent(waiter, reached, 0));
}

int capture() {
  hipStream_t origin, left, right;
  for (hipStream_t* const each : {&origin, &left, &right})
    REQUIRE(hipStreamCreateWithFlags(each, hipStreamNonBlocking));
  REQUIRE(hipStreamBeginCapture(origin, hipStreamCaptureModeRelaxed));
  wait(left, origin);
  wait(right, left);
  wait(right, origin);
  wait(left, right);
  wait(origin, left);
  hipGraph_t graph;
  std::puts(hipGetErrorName(hipStreamEndCapture(origin, &graph)));
  return 0;
}

}  // namespace

int main() {
  const int status =
      in_child([] { return begin("a capture whose streams wait for each other ends"); });
  if (status != 0) return status;
  std::printf("got       hipStreamEndCapture ");
  const int ended = in_child(capture);
  if (ended > 128) finish(defect_seen, "the end of the capture crashed");
  if (ended != 0) return ended;
  finish(as_documented, "it ended");
}
