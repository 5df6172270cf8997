// SPDX-License-Identifier: MIT
// The driver's library of a program on CUDA, over HIP, with its names and its two ways
// to look them up.
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

constexpr std::uint64_t per_thread_flag = 2;

hipStream_t of_thread(hipStream_t stream) {
  return stream == nullptr ? hipStreamPerThread : stream;
}

}  // namespace

extern "C" {

int cuMemAlloc(unsigned*, unsigned) { return 1; }  // of the days of 32 bits
int cuMemAlloc_v2(void** pointer, std::size_t bytes) { return hipMalloc(pointer, bytes); }
int cuMemFree_v2(void* pointer) { return hipFree(pointer); }
int cuMemAllocAsync(void** pointer, std::size_t bytes, hipStream_t stream) {
  return hipMallocAsync(pointer, bytes, stream);
}
int cuMemAllocAsync_ptsz(void** pointer, std::size_t bytes, hipStream_t stream) {
  return hipMallocAsync(pointer, bytes, of_thread(stream));
}
int cuMemFreeAsync(void* pointer, hipStream_t stream) { return hipFreeAsync(pointer, stream); }
int cuMemFreeAsync_ptsz(void* pointer, hipStream_t stream) {
  return hipFreeAsync(pointer, of_thread(stream));
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return hipMemGetInfo(free, total); }
int cuStreamDestroy_v2(hipStream_t stream) { return hipStreamDestroy(stream); }
int cuDevicePrimaryCtxReset_v2(int) { return hipDeviceReset(); }
int cuCtxCreate_v2(void** context, unsigned flags, int device) {
  *context = context;  // any but null
  return flags == 0 && device == 0 ? 0 : 1;
}
int cuCtxCreate_v4(void** context, void* parameters, unsigned flags, int device) {
  return parameters == nullptr ? cuCtxCreate_v2(context, flags, device) : 1;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags);
int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                        void* status);

int cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  const struct {
    const char* name;
    void* function;
  } functions[] = {
      {"cuMemAlloc", version < 3020 ? reinterpret_cast<void*>(&cuMemAlloc)
                                    : reinterpret_cast<void*>(&cuMemAlloc_v2)},
      {"cuMemFree", reinterpret_cast<void*>(&cuMemFree_v2)},
      {"cuMemAllocAsync", (flags & per_thread_flag) != 0
                              ? reinterpret_cast<void*>(&cuMemAllocAsync_ptsz)
                              : reinterpret_cast<void*>(&cuMemAllocAsync)},
      {"cuMemFreeAsync", (flags & per_thread_flag) != 0
                             ? reinterpret_cast<void*>(&cuMemFreeAsync_ptsz)
                             : reinterpret_cast<void*>(&cuMemFreeAsync)},
      {"cuMemGetInfo", reinterpret_cast<void*>(&cuMemGetInfo_v2)},
      {"cuStreamDestroy", reinterpret_cast<void*>(&cuStreamDestroy_v2)},
      {"cuDevicePrimaryCtxReset", reinterpret_cast<void*>(&cuDevicePrimaryCtxReset_v2)},
      {"cuCtxCreate", version < 12050 ? reinterpret_cast<void*>(&cuCtxCreate_v2)
                                      : reinterpret_cast<void*>(&cuCtxCreate_v4)},
      {"cuDriverGetVersion", reinterpret_cast<void*>(&cuDriverGetVersion)},
      {"cuGetProcAddress", version < 12000 ? reinterpret_cast<void*>(&cuGetProcAddress)
                                           : reinterpret_cast<void*>(&cuGetProcAddress_v2)},
  };
  for (const auto& each : functions) {
    if (std::strcmp(name, each.name) != 0) continue;
    *function = each.function;
    return 0;
  }
  return 500;  // CUDA_ERROR_NOT_FOUND
}

int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                        void*) {
  return cuGetProcAddress(name, function, version, flags);
}
}
