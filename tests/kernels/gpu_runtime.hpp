// SPDX-License-Identifier: MIT
#pragma once

// Names of CUDA's runtime or of HIP for kernels of tests and benchmarks, by one name each. nvcc and
// hipcc include it.
#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#else
#include <cuda_runtime_api.h>

struct ihipStream_t;
#endif

namespace hipvmm::gpu {

#if defined(__HIPCC__)

using native_stream = hipStream_t;

inline int last_error() { return hipGetLastError(); }
inline const char* error_text(int error) {
  return hipGetErrorString(static_cast<hipError_t>(error));
}

/// Ticks of the clock that all the device shares; their rate is the device's own.
__device__ inline long long ticks() { return static_cast<long long>(wall_clock64()); }
/// Ticks of the current device; 0 if HIP does not report their rate.
inline long long ticks_per_millisecond() {
  int device = 0;
  int kilohertz = 0;
  if (hipGetDevice(&device) != hipSuccess ||
      hipDeviceGetAttribute(&kilohertz, hipDeviceAttributeWallClockRate, device) != hipSuccess)
    return 0;
  return kilohertz;
}

#else

using native_stream = cudaStream_t;

inline int last_error() { return cudaGetLastError(); }
inline const char* error_text(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

__device__ inline long long ticks() {
  long long nanoseconds = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}
inline long long ticks_per_millisecond() { return 1'000'000; }

#endif

/// The stream as the runtime's own launches take it.
inline native_stream native(ihipStream_t* stream) {
  return reinterpret_cast<native_stream>(stream);
}

}  // namespace hipvmm::gpu
