// SPDX-License-Identifier: MIT
#include "memory/host_memory.hpp"

#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

constexpr unsigned host_flags = hipHostMallocPortable | hipHostMallocMapped |
                                hipHostMallocWriteCombined | hipHostMallocNumaUser |
                                hipHostMallocCoherent | hipHostMallocNonCoherent;

// Coherency and the choice of the NUMA node are AMD's: pinned memory is always coherent here.
unsigned host_flags_for_cuda(unsigned flags) {
  unsigned wanted = 0;
  if ((flags & hipHostMallocPortable) != 0) wanted |= CU_MEMHOSTALLOC_PORTABLE;
  if ((flags & hipHostMallocMapped) != 0) wanted |= CU_MEMHOSTALLOC_DEVICEMAP;
  if ((flags & hipHostMallocWriteCombined) != 0) wanted |= CU_MEMHOSTALLOC_WRITECOMBINED;
  return wanted;
}

hipError_t allocate_host(void** pointer, std::size_t bytes, unsigned flags) {
  return call([&](driver&) {
    require(pointer != nullptr);
    *pointer = nullptr;
    require((flags & ~host_flags) == 0);
    require((flags & hipHostMallocCoherent) == 0 || (flags & hipHostMallocNonCoherent) == 0);
    if (bytes == 0) return hipSuccess;
    check(cuMemHostAlloc(pointer, bytes, host_flags_for_cuda(flags)));
    return hipSuccess;
  });
}

hipError_t free_host(void* pointer) {
  return call_anywhere([&](driver& machine) {
    if (pointer == nullptr) return hipSuccess;
    machine.wait_all();
    check(cuMemFreeHost(pointer));
    return hipSuccess;
  });
}

}  // namespace

CUresult get_host_flags(void* pointer, unsigned& flags) {
  unsigned given = 0;
  const CUresult result = cuMemHostGetFlags(&given, pointer);
  if (result != CUDA_SUCCESS) return result;
  flags = hipHostMallocDefault;
  if ((given & CU_MEMHOSTALLOC_PORTABLE) != 0) flags |= hipHostMallocPortable;
  if ((given & CU_MEMHOSTALLOC_DEVICEMAP) != 0) flags |= hipHostMallocMapped;
  if ((given & CU_MEMHOSTALLOC_WRITECOMBINED) != 0) flags |= hipHostMallocWriteCombined;
  return CUDA_SUCCESS;
}

}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipHostMalloc(void** pointer, size_t bytes, unsigned int flags) {
  return allocate_host(pointer, bytes, flags);
}

hipError_t hipHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return allocate_host(pointer, bytes, flags);
}

hipError_t hipMallocHost(void** pointer, size_t bytes) {
  return allocate_host(pointer, bytes, hipHostMallocDefault);
}

hipError_t hipMemAllocHost(void** pointer, size_t bytes) {
  return allocate_host(pointer, bytes, hipHostMallocDefault);
}

hipError_t hipHostFree(void* pointer) { return free_host(pointer); }

hipError_t hipFreeHost(void* pointer) { return free_host(pointer); }

hipError_t hipHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned int flags) {
  return call([&](driver&) {
    require(device_pointer != nullptr && host_pointer != nullptr && flags == 0);
    CUdeviceptr found = 0;
    check(cuMemHostGetDevicePointer(&found, host_pointer, 0));
    *device_pointer = to_pointer(found);
    return hipSuccess;
  });
}

hipError_t hipHostGetFlags(unsigned int* flags, void* pointer) {
  return call([&](driver&) {
    require(flags != nullptr && pointer != nullptr);
    check(get_host_flags(pointer, *flags));
    return hipSuccess;
  });
}
