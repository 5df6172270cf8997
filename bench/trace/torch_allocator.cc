// SPDX-License-Identifier: MIT
// PyTorch's caching allocator behind trace_allocator.h. In no target: torch_allocator.sh compiles
// it against the headers of an installed PyTorch when trace_bench runs.
#include "trace_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cstddef>
#include <exception>
#include <string>

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

c10::DeviceIndex device = 0;
std::string error;

template <typename Result, typename Work>
Result guarded(Result failed, Work work) noexcept {
  try {
    return work();
  } catch (const std::exception& reason) {
    error = reason.what();
  } catch (...) {
    error = "an exception of an unknown type";
  }
  return failed;
}

// Index 0 of its statistics is the sum over all of the allocator's pools.
auto reserved_bytes() { return allocator::getDeviceStats(device).reserved_bytes[0]; }

}  // namespace

extern "C" {

int hipvmm_bench_open(int wanted) {
  return guarded(1, [&] {
    device = static_cast<c10::DeviceIndex>(wanted);
    c10::cuda::set_device(device);
    allocator::init(static_cast<int>(c10::cuda::device_count()));
    return 0;
  });
}

void* hipvmm_bench_allocate(std::size_t bytes, void* stream) {
  return guarded(static_cast<void*>(nullptr), [&] {
    return allocator::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream));
  });
}

int hipvmm_bench_deallocate(void* pointer, std::size_t, void*) {
  return guarded(1, [&] {
    allocator::raw_delete(pointer);
    return 0;
  });
}

std::size_t hipvmm_bench_reserved_bytes() {
  return guarded(std::size_t{0}, [] { return static_cast<std::size_t>(reserved_bytes().current); });
}

std::size_t hipvmm_bench_peak_reserved_bytes() {
  return guarded(std::size_t{0}, [] { return static_cast<std::size_t>(reserved_bytes().peak); });
}

void hipvmm_bench_reset_peak() {
  static_cast<void>(guarded(1, [] {
    allocator::resetPeakStats(device);
    return 0;
  }));
}

int hipvmm_bench_empty_cache() {
  return guarded(1, [] {
    allocator::emptyCache();
    return 0;
  });
}

const char* hipvmm_bench_error() { return error.c_str(); }

}  // extern "C"
