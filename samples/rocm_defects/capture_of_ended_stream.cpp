// SPDX-License-Identifier: MIT
// A thread begins the capture of a stream, another thread destroys the stream. The runtime may keep
// the first thread in the capture for good: calls that captures refuse are refused there.
#include "defect.hpp"

namespace {

// How hipMalloc ends in the thread that began the capture.
hipError_t malloc_after(hipStreamCaptureMode mode) {
  hipError_t result = hipSuccess;
  std::thread{[&] {
    hipStream_t stream;
    REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    REQUIRE(hipStreamBeginCapture(stream, mode));
    hipError_t destroyed = hipSuccess;
    std::thread{[&] { destroyed = hipStreamDestroy(stream); }}.join();
    REQUIRE(destroyed);
    void* memory = nullptr;
    result = hipMalloc(&memory, 1 << 20);
    if (result == hipSuccess) REQUIRE(hipFree(memory));
  }}.join();
  return result;
}

}  // namespace

int main() {
  begin("a thread is in no capture once its captured stream is destroyed");
  const hipError_t relaxed = malloc_after(hipStreamCaptureModeRelaxed);
  const hipError_t local = malloc_after(hipStreamCaptureModeThreadLocal);
  const hipError_t global = malloc_after(hipStreamCaptureModeGlobal);
  std::printf(
      "got       hipMalloc after a capture in relaxed mode %s, thread-local %s, global %s\n",
      hipGetErrorName(relaxed), hipGetErrorName(local), hipGetErrorName(global));
  if (relaxed != hipSuccess || local != hipSuccess || global != hipSuccess)
    finish(defect_seen, "the thread is refused what captures refuse");
  finish(as_documented, "the thread can allocate");
}
