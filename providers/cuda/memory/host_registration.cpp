// SPDX-License-Identifier: MIT
#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

// Newer headers name two more: read-only, and uncached, which has no counterpart and no effect.
constexpr unsigned read_only_flag = 0x8U;
constexpr unsigned registration_flags = hipHostRegisterPortable | hipHostRegisterMapped |
                                        hipHostRegisterIoMemory | read_only_flag | 0x80000000U;

unsigned registration_flags_for_cuda(unsigned flags) {
  unsigned wanted = 0;
  if ((flags & hipHostRegisterPortable) != 0) wanted |= CU_MEMHOSTREGISTER_PORTABLE;
  if ((flags & hipHostRegisterMapped) != 0) wanted |= CU_MEMHOSTREGISTER_DEVICEMAP;
  if ((flags & hipHostRegisterIoMemory) != 0) wanted |= CU_MEMHOSTREGISTER_IOMEMORY;
  if ((flags & read_only_flag) != 0) wanted |= CU_MEMHOSTREGISTER_READ_ONLY;
  return wanted;
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return call([&](driver&) {
    require(pointer != nullptr && bytes != 0);
    require((flags & ~registration_flags) == 0);
    check(cuMemHostRegister(pointer, bytes, registration_flags_for_cuda(flags)));
    return hipSuccess;
  });
}

hipError_t hipHostUnregister(void* pointer) {
  return call_anywhere([&](driver& machine) {
    require(pointer != nullptr);
    machine.wait_all();
    const CUresult result = cuMemHostUnregister(pointer);
    // The driver's "invalid value" means an address inside registered memory.
    require(result != CUDA_ERROR_INVALID_VALUE, hipErrorHostMemoryNotRegistered);
    check(result);
    return hipSuccess;
  });
}
