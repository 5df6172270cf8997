// SPDX-License-Identifier: MIT
// An event is recorded in a stream that is then destroyed. A new stream is captured, and the event
// is asked. The runtime may find the stream of the event by an address that is the new stream's.
#include "defect.hpp"

int main() {
  begin("an event of a destroyed stream can be asked while another stream is captured");
  constexpr int rounds = 200;
  int refused = 0, lost = 0;
  for (int round = 0; round < rounds; ++round) {
    hipStream_t old, captured;
    hipEvent_t event;
    REQUIRE(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    REQUIRE(hipStreamCreateWithFlags(&old, hipStreamNonBlocking));
    REQUIRE(hipEventRecord(event, old));
    REQUIRE(hipStreamSynchronize(old));
    REQUIRE(hipStreamDestroy(old));
    REQUIRE(hipStreamCreateWithFlags(&captured, hipStreamNonBlocking));
    REQUIRE(hipStreamBeginCapture(captured, hipStreamCaptureModeRelaxed));
    if (hipEventQuery(event) != hipSuccess) ++refused;
    hipGraph_t graph = nullptr;
    if (hipStreamEndCapture(captured, &graph) != hipSuccess) ++lost;
    if (graph != nullptr) REQUIRE(hipGraphDestroy(graph));
    static_cast<void>(hipGetLastError());
    REQUIRE(hipStreamDestroy(captured));
    REQUIRE(hipEventDestroy(event));
  }
  std::printf("got       of %d queries %d were refused, of %d captures %d were lost\n", rounds,
              refused, rounds, lost);
  if (refused + lost > 0) finish(defect_seen, "the event was taken for a part of the capture");
  finish(as_documented, "the event is done, and the capture goes on");
}
