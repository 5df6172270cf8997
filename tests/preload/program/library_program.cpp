// SPDX-License-Identifier: MIT
// A program that uses hipvmm itself.
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

int main() {
  const hipvmm::stream busy{hipvmm::device_ref{0}};
  static std::atomic<bool> done{false};
  const hipError_t added = hipStreamAddCallback(
      busy.get(),
      [](hipStream_t, hipError_t, void*) {
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        done = true;
      },
      nullptr, 0);
  if (added != hipSuccess) return 1;
  hipvmm::device_ref{0}.synchronize();
  std::printf("synchronize %s\n", done ? "waited" : "returned");
  busy.synchronize();
  return 0;
}
