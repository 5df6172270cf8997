// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "memory/memory.hpp"
#include "stream/capture.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipMallocAsync(void** pointer, size_t bytes, hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    require(pointer != nullptr);
    *pointer = nullptr;
    if (bytes == 0) return hipSuccess;
    CUdeviceptr start = 0;
    check(cuMemAllocAsync(&start, bytes, to_cuda(stream)));
    *pointer = to_pointer(start);
    return hipSuccess;
  });
}

hipError_t hipMallocFromPoolAsync(void** pointer, size_t bytes, hipMemPool_t pool,
                                  hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    require(pointer != nullptr && pool != nullptr);
    *pointer = nullptr;
    if (bytes == 0) return hipSuccess;
    CUdeviceptr start = 0;
    check(cuMemAllocFromPoolAsync(&start, bytes, to_cuda(pool), to_cuda(stream)));
    *pointer = to_pointer(start);
    return hipSuccess;
  });
}

hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return call_on(stream, [&](driver& machine) {
    require(pointer != nullptr);
    const CUdeviceptr start = to_cuda(pointer);
    // The driver refuses to record a free that a capture cannot make.
    if (is_captured(stream) || is_stream_ordered(start)) {
      check(cuMemFreeAsync(start, to_cuda(stream)));
    } else {
      // HIP frees this as hipFree does; cuMemFreeAsync would not wait for work that uses it.
      free_now(machine, start);
    }
    return hipSuccess;
  });
}
