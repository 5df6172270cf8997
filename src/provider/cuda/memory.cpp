// SPDX-License-Identifier: MIT
#include "memory.hpp"

#include "call.hpp"

namespace hipvmm::cuda_provider {

bool is_stream_ordered(CUdeviceptr start) {
  CUmemoryPool pool = nullptr;
  check(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, start));
  if (pool != nullptr) return true;
  // A graph's memory has no pool to tell. What it is not: memory of cuMemAlloc, the one kind that
  // has a legacy IPC handle, or managed.
  unsigned plain = 0;
  unsigned managed = 0;
  check(cuPointerGetAttribute(&plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, start));
  check(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, start));
  return plain == 0 && managed == 0;
}

void free_now(driver& machine, CUdeviceptr start) {
  // CUDA frees such memory at once, whoever still uses it; the rest it waits for.
  if (is_stream_ordered(start)) machine.wait_all();
  check(cuMemFree(start));
}

}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMalloc(void** pointer, size_t bytes) {
  return call([&](driver&) {
    require(pointer != nullptr);
    *pointer = nullptr;
    if (bytes == 0) return hipSuccess;
    CUdeviceptr start = 0;
    check(cuMemAlloc(&start, bytes));
    *pointer = to_pointer(start);
    return hipSuccess;
  });
}

hipError_t hipFree(void* pointer) {
  return call([&](driver& machine) {
    if (pointer != nullptr) free_now(machine, to_cuda(pointer));
    return hipSuccess;
  });
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call([&](driver&) {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cuMemGetInfo(&free, &total));
    if (free_bytes != nullptr) *free_bytes = free;
    if (total_bytes != nullptr) *total_bytes = total;
    return hipSuccess;
  });
}
