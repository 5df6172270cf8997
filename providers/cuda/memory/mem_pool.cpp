// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "base/cuda_compat.hpp"
#include "core/hip_compat.hpp"
#include "memory/vmm.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* wanted) {
  return call([&](driver& machine) {
    require(pool != nullptr && wanted != nullptr);
    require(value_of(wanted->allocType) == hipMemAllocationTypePinned);
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = device_location(machine, wanted->location, hipErrorInvalidValue);
    properties.handleTypes = handle_type_of(value_of(wanted->handleTypes), hipErrorNotSupported);
    require(cuda_compat::set_max_bytes(properties, hipvmm::hip_compat::max_pool_bytes(*wanted)),
            hipErrorNotSupported);
    CUmemoryPool made = nullptr;
    check(cuMemPoolCreate(&made, &properties));
    *pool = to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  return call_anywhere([&](driver&) {
    require(pool != nullptr);
    check(cuMemPoolDestroy(to_cuda(pool)));
    return hipSuccess;
  });
}

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes_to_keep) {
  return call_anywhere([&](driver&) {
    require(pool != nullptr);
    check(cuMemPoolTrimTo(to_cuda(pool), bytes_to_keep));
    return hipSuccess;
  });
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
  return call([&](driver& machine) {
    require(pool != nullptr);
    CUmemoryPool found = nullptr;
    check(cuDeviceGetDefaultMemPool(&found, machine.device(device)));
    *pool = to_hip(found);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int device) {
  return call([&](driver& machine) {
    require(pool != nullptr && machine.has_device(device));
    CUmemoryPool found = nullptr;
    check(cuDeviceGetMemPool(&found, machine.device(device)));
    *pool = to_hip(found);
    return hipSuccess;
  });
}

hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  return call([&](driver& machine) {
    require(pool != nullptr && machine.has_device(device));
    check(cuDeviceSetMemPool(machine.device(device), to_cuda(pool)));
    return hipSuccess;
  });
}
