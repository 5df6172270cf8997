// SPDX-License-Identifier: MIT
// hipMalloc and hipFree behind trace_allocator.h: the smallest library for trace_bench --allocator,
// on which check_trace_bench.sh replays in a process of its own.
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "trace_allocator.h"

namespace {

const char* error = "";
std::size_t reserved = 0;
std::size_t peak = 0;

int status_of(hipError_t code) {
  if (code == hipSuccess) return 0;
  error = hipGetErrorString(code);
  return 1;
}

}  // namespace

extern "C" {

int hipvmm_bench_open(int device) { return status_of(hipSetDevice(device)); }

void* hipvmm_bench_allocate(std::size_t bytes, void*) {
  void* pointer = nullptr;
  if (status_of(hipMalloc(&pointer, bytes)) != 0) return nullptr;
  reserved += bytes;
  peak = std::max(peak, reserved);
  return pointer;
}

int hipvmm_bench_deallocate(void* pointer, std::size_t bytes, void*) {
  if (status_of(hipFree(pointer)) != 0) return 1;
  reserved -= bytes;
  return 0;
}

std::size_t hipvmm_bench_reserved_bytes() { return reserved; }
std::size_t hipvmm_bench_peak_reserved_bytes() { return peak; }
void hipvmm_bench_reset_peak() { peak = reserved; }
int hipvmm_bench_empty_cache() { return 0; }
const char* hipvmm_bench_error() { return error; }

}  // extern "C"
