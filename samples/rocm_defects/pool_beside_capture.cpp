// SPDX-License-Identifier: MIT
// While one blocking stream is captured in relaxed mode, memory is allocated and freed in stream
// order in other streams of another thread.
#include "defect.hpp"

namespace {

// How an allocation and its free end while `captured` is captured.
int ask(bool in_null_stream, unsigned flags) {
  hipStream_t captured, other = nullptr;
  REQUIRE(hipStreamCreate(&captured));
  if (!in_null_stream) REQUIRE(hipStreamCreateWithFlags(&other, flags));
  // The pool has the memory by then.
  void* earlier = nullptr;
  REQUIRE(hipMallocAsync(&earlier, 1 << 20, other));
  REQUIRE(hipFreeAsync(earlier, other));
  REQUIRE(hipStreamBeginCapture(captured, hipStreamCaptureModeRelaxed));
  hipError_t allocated = hipSuccess, freed = hipSuccess;
  std::thread{[&] {
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    REQUIRE(hipThreadExchangeStreamCaptureMode(&mode));
    void* block = nullptr;
    allocated = hipMallocAsync(&block, 1 << 20, other);
    if (allocated == hipSuccess) freed = hipFreeAsync(block, other);
  }}.join();
  hipGraph_t graph = nullptr;
  const hipError_t ended = hipStreamEndCapture(captured, &graph);
  std::printf("hipMallocAsync %s, hipFreeAsync %s, the capture %s\n", hipGetErrorName(allocated),
              hipGetErrorName(freed), hipGetErrorName(ended));
  return allocated == hipSuccess && freed == hipSuccess && ended == hipSuccess ? 0 : 1;
}

}  // namespace

int main() {
  const int status = in_child([] {
    begin("a stream that is captured leaves allocations in other streams alone");
    int pools = 0;
    REQUIRE(hipDeviceGetAttribute(&pools, hipDeviceAttributeMemoryPoolsSupported, 0));
    return pools == 0 ? finish(cannot_ask, "the device has no pools"), 1 : 0;
  });
  if (status != 0) return status;
  int failed = 0;
  std::printf("got       in a non-blocking stream:  ");
  failed += in_child([] { return ask(false, hipStreamNonBlocking); }) != 0 ? 1 : 0;
  std::printf("          in a blocking stream:      ");
  failed += in_child([] { return ask(false, hipStreamDefault); }) != 0 ? 1 : 0;
  std::printf("          in the null stream:        ");
  const int null = in_child([] { return ask(true, 0); });
  // Work in the null stream would come before and behind the captured stream's: a refusal is right.
  if (null >= 128) ++failed;
  if (failed != 0) finish(defect_seen, std::to_string(failed) + " of 3 fail or crash");
  finish(as_documented, "none fails without need, none crashes");
}
