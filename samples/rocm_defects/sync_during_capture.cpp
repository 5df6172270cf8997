// SPDX-License-Identifier: MIT
// hipDeviceSynchronize while another thread captures a stream. It is refused if the captured
// stream is of the same device; when the capture has ended, and for other devices, it must work.
#include "defect.hpp"

int main() {
  begin(
      "hipDeviceSynchronize works for other devices than the captured one, and after the capture");
  int devices = 0, failed = 0;
  REQUIRE(hipGetDeviceCount(&devices));
  hipStream_t stream;
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  const auto synchronize = [](int device) {
    hipError_t result = hipSuccess;
    std::thread{[&] {  // a thread that has nothing to do with the capture
      REQUIRE(hipSetDevice(device));
      result = hipDeviceSynchronize();
    }}
        .join();
    return result;
  };
  const auto show = [&failed](const char* name, hipError_t result, bool must_work) {
    std::printf("got       %-44s %s\n", name, hipGetErrorName(result));
    if (must_work && result != hipSuccess) ++failed;
  };
  if (devices > 1) {
    REQUIRE(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    show("device 1, while device 0 is captured", synchronize(1), true);
    show("hipStreamEndCapture, then", hipStreamEndCapture(stream, &graph), true);
  }
  REQUIRE(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  show("device 0, while it is captured", synchronize(0), false);
  show("device 0, once more", synchronize(0), false);
  show("hipStreamEndCapture, then", hipStreamEndCapture(stream, &graph), false);
  show("device 0, after the capture", synchronize(0), true);
  show("hipStreamDestroy", hipStreamDestroy(stream), true);
  show("device 0, after the stream", synchronize(0), true);
  if (failed != 0) finish(defect_seen, std::to_string(failed) + " calls that must work failed");
  finish(as_documented,
         devices > 1 ? "all that must work did" : "all did; another GPU would show more");
}
