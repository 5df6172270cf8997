// SPDX-License-Identifier: MIT
#include <array>

#include "base/call.hpp"
#include "core/hip_compat.hpp"
#include "memory/host_memory.hpp"

namespace hipvmm::cuda_provider {
namespace {

// All zero if the driver does not know the address.
struct pointer_facts {
  CUmemorytype type{};
  unsigned managed = 0;
  unsigned mapped = 0;
  int device = 0;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
};

pointer_facts facts_of(CUdeviceptr address) {
  pointer_facts facts;
  std::array<CUpointer_attribute, 6> wanted{
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_MAPPED,         CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
  std::array<void*, 6> answers{&facts.type,   &facts.managed,        &facts.mapped,
                               &facts.device, &facts.device_pointer, &facts.host_pointer};
  check(cuPointerGetAttributes(static_cast<unsigned>(wanted.size()), wanted.data(), answers.data(),
                               address));
  return facts;
}

unsigned allocation_flags(const pointer_facts& facts, const void* pointer) {
  unsigned flags = 0;
  if (facts.managed == 0 && facts.type == CU_MEMORYTYPE_HOST) {
    // For registered memory the driver may refuse: then the flags stay 0, the default.
    static_cast<void>(get_host_flags(const_cast<void*>(pointer), flags));
  }
  return flags;
}

struct address_range {
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
};

// cuMemGetAddressRange does not know mapped chunks; their attributes do.
address_range range_of(CUdeviceptr address) {
  address_range range;
  if (cuMemGetAddressRange(&range.start, &range.bytes, address) == CUDA_SUCCESS) return range;
  unsigned mapped = 0;
  std::array<CUpointer_attribute, 3> wanted{CU_POINTER_ATTRIBUTE_MAPPED,
                                            CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                            CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 3> answers{&mapped, &range.start, &range.bytes};
  check(cuPointerGetAttributes(static_cast<unsigned>(wanted.size()), wanted.data(), answers.data(),
                               address));
  require(mapped != 0, hipErrorNotFound);
  return range;
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  return call_anywhere([&](driver& machine) {
    require(attributes != nullptr && pointer != nullptr);
    const pointer_facts facts = facts_of(to_cuda(pointer));
    const bool managed = facts.managed != 0;
    const bool on_host = managed || facts.type == CU_MEMORYTYPE_HOST;
    hipPointerAttribute_t answer{};
    // The driver reports reserved addresses that are not mapped as a device's, too.
    if (!on_host && (facts.type != CU_MEMORYTYPE_DEVICE || facts.mapped == 0)) {
      hipvmm::hip_compat::memory_type(answer) = hipvmm::hip_compat::unregistered_memory_type;
      answer.device = hipInvalidDeviceId;
      *attributes = answer;
      return hipSuccess;
    }
    hipvmm::hip_compat::memory_type(answer) = managed   ? hipvmm::hip_compat::managed_memory_type
                                              : on_host ? hipMemoryTypeHost
                                                        : hipMemoryTypeDevice;
    answer.isManaged = managed ? 1 : 0;
    answer.device = machine.has_device(facts.device) ? facts.device : current_device();
    answer.devicePointer = to_pointer(facts.device_pointer);
    answer.hostPointer = managed ? const_cast<void*>(pointer) : facts.host_pointer;
    answer.allocationFlags = allocation_flags(facts, pointer);
    *attributes = answer;
    return hipSuccess;
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* bytes, hipDeviceptr_t pointer) {
  return call_anywhere([&](driver&) {
    const address_range range = range_of(to_cuda(pointer));
    if (base != nullptr) *base = to_pointer(range.start);
    if (bytes != nullptr) *bytes = range.bytes;
    return hipSuccess;
  });
}

hipError_t hipMemPtrGetInfo(void* pointer, size_t* bytes) {
  return call_anywhere([&](driver&) {
    require(pointer != nullptr && bytes != nullptr);
    address_range range;
    try {
      range = range_of(to_cuda(pointer));
    } catch (const failure&) {
      throw failure{hipErrorInvalidValue};
    }
    *bytes = range.bytes;
    return hipSuccess;
  });
}
