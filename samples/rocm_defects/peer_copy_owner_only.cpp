// SPDX-License-Identifier: MIT
// hipMemcpyPeer between mapped memory of two GPUs, of which each may be used by its own GPU only.
// The copy may need a GPU that has no right to one of the two, and then faults: a child does it.
#include "virtual_memory.hpp"

#include <cstring>

namespace {

char* memory_of(int device, std::size_t bytes) {
  REQUIRE(hipSetDevice(device));
  char* const at = reserve(bytes);
  map(at, bytes, device);
  REQUIRE(grant(at, bytes, device));
  return at;
}

int ask() {
  begin("hipMemcpyPeerAsync copies between memory that only its own GPU may use, or is refused", 2);
  const std::size_t bytes = granularity();
  char* const from = memory_of(1, bytes);
  REQUIRE(hipMemcpy(from, "from GPU 1", 11, hipMemcpyHostToDevice));
  char* const to = memory_of(0, bytes);
  REQUIRE(hipMemset(to, 0, 11));
  REQUIRE(hipDeviceSynchronize());
  hipStream_t stream;
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  hipError_t result = hipMemcpyPeerAsync(to, 0, from, 1, 11, stream);
  if (result == hipSuccess) result = hipStreamSynchronize(stream);
  std::printf("got       hipMemcpyPeerAsync and its stream: %s\n", hipGetErrorName(result));
  if (result != hipSuccess) finish(as_documented, "it was refused");
  char received[11] = {};
  REQUIRE(hipMemcpy(received, to, 11, hipMemcpyDeviceToHost));
  if (std::strcmp(received, "from GPU 1") != 0) finish(defect_seen, "other bytes arrived");
  finish(as_documented, "the bytes arrived");
}

}  // namespace

int main() {
  const int status = in_child(ask);
  if (status <= 128) return status;
  finish(defect_seen, "the copy ended the process");
}
