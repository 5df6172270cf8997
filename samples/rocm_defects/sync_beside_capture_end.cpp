// SPDX-License-Identifier: MIT
// One thread calls hipDeviceSynchronize again and again while others begin and end captures of
// streams of their own.
#include "defect.hpp"

namespace {

constexpr int capturing_threads = 3;

void capture_and_destroy() {
  hipStream_t stream;
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  REQUIRE(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  std::this_thread::yield();
  hipGraph_t graph = nullptr;
  // A wait in the other thread may have cost the capture.
  if (hipStreamEndCapture(stream, &graph) == hipSuccess && graph != nullptr)
    REQUIRE(hipGraphDestroy(graph));
  REQUIRE(hipStreamDestroy(stream));
}

int ask(std::chrono::milliseconds duration) {
  REQUIRE(hipFree(nullptr));
  std::atomic<bool> ends{false};
  std::atomic<long> captures{0};
  std::thread threads[capturing_threads];
  for (std::thread& each : threads)
    each = std::thread{[&] {
      for (; !ends; ++captures) capture_and_destroy();
    }};
  const auto end = std::chrono::steady_clock::now() + duration;
  long waits = 0;
  for (; std::chrono::steady_clock::now() < end; ++waits) {
    // Refused while a stream is captured, which is another question (sync_during_capture).
    static_cast<void>(hipDeviceSynchronize());
    static_cast<void>(hipGetLastError());
    std::this_thread::yield();
  }
  ends = true;
  for (std::thread& each : threads) each.join();
  std::printf("got       %ld waits beside %ld captures\n", waits, captures.load());
  return 0;
}

}  // namespace

// The argument: milliseconds that the race is looked for.
int main(int argc, char** argv) {
  const std::chrono::milliseconds duration{argc > 1 ? std::atoi(argv[1]) : 16'000};
  const int status = in_child([&] { return ask(duration); });
  begin("hipDeviceSynchronize may be called while other threads end captures");
  if (status == cannot_ask) finish(cannot_ask, "see above");
  if (status != 0) finish(defect_seen, "the process was ended, see above");
  finish(as_documented, "all waits returned");
}
