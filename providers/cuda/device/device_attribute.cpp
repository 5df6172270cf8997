// SPDX-License-Identifier: MIT
#include "device/device_attribute.hpp"

#include "base/call.hpp"
#include "core/hip_compat.hpp"

namespace hipvmm::cuda_provider {
namespace {

// HIP's attributes that are CUDA's by name and are one number. The numbering differs.
CUdevice_attribute device_attribute_of(int attribute) {
  if (attribute == hip_compat::virtual_memory_management_supported) {
    return CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  }
  switch (attribute) {
    case hip_compat::host_register_supported:
      return CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED;
    case hipDeviceAttributeEccEnabled:
      return CU_DEVICE_ATTRIBUTE_ECC_ENABLED;
    case hipDeviceAttributeAsyncEngineCount:
      return CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
    case hipDeviceAttributeCanMapHostMemory:
      return CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY;
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      return CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
    case hipDeviceAttributeClockRate:
      return CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
    case hipDeviceAttributeComputeMode:
      return CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;
    case hipDeviceAttributeComputePreemptionSupported:
      return CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED;
    case hipDeviceAttributeConcurrentKernels:
      return CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS;
    case hipDeviceAttributeConcurrentManagedAccess:
      return CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    case hipDeviceAttributeCooperativeLaunch:
      return CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
      return CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;
    case hipDeviceAttributeGlobalL1CacheSupported:
      return CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED;
    case hipDeviceAttributeHostNativeAtomicSupported:
      return CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED;
    case hipDeviceAttributeIntegrated:
      return CU_DEVICE_ATTRIBUTE_INTEGRATED;
    case hipDeviceAttributeIsMultiGpuBoard:
      return CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD;
    case hipDeviceAttributeKernelExecTimeout:
      return CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT;
    case hipDeviceAttributeL2CacheSize:
      return CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
    case hipDeviceAttributeLocalL1CacheSupported:
      return CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED;
    case hipDeviceAttributeComputeCapabilityMajor:
      return CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    case hipDeviceAttributeComputeCapabilityMinor:
      return CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    case hipDeviceAttributeManagedMemory:
      return CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
      return CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR;
    case hipDeviceAttributeMaxBlockDimX:
      return CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X;
    case hipDeviceAttributeMaxBlockDimY:
      return CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y;
    case hipDeviceAttributeMaxBlockDimZ:
      return CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z;
    case hipDeviceAttributeMaxGridDimX:
      return CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X;
    case hipDeviceAttributeMaxGridDimY:
      return CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y;
    case hipDeviceAttributeMaxGridDimZ:
      return CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z;
    case hipDeviceAttributeMaxThreadsPerBlock:
      return CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      return CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    case hipDeviceAttributeMaxPitch:
      return CU_DEVICE_ATTRIBUTE_MAX_PITCH;
    case hipDeviceAttributeMemoryBusWidth:
      return CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
    case hipDeviceAttributeMemoryClockRate:
      return CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
    case hipDeviceAttributeMultiGpuBoardGroupID:
      return CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID;
    case hipDeviceAttributeMultiprocessorCount:
      return CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    case hipDeviceAttributePageableMemoryAccess:
      return CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
      return CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    case hipDeviceAttributePciBusId:
      return CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
    case hipDeviceAttributePciDeviceId:
      return CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
    case hipDeviceAttributePciDomainID:
      return CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
    case hipDeviceAttributeMaxRegistersPerBlock:
      return CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK;
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      return CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR;
    case hipDeviceAttributeReservedSharedMemPerBlock:
      return CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      return CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK;
    case hipDeviceAttributeSharedMemPerBlockOptin:
      return CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    case hipDeviceAttributeSharedMemPerMultiprocessor:
      return CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR;
    case hipDeviceAttributeSingleToDoublePrecisionPerfRatio:
      return CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO;
    case hipDeviceAttributeStreamPrioritiesSupported:
      return CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED;
    case hipDeviceAttributeSurfaceAlignment:
      return CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT;
    case hipDeviceAttributeTextureAlignment:
      return CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT;
    case hipDeviceAttributeTexturePitchAlignment:
      return CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT;
    case hipDeviceAttributeTotalConstantMemory:
      return CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY;
    case hipDeviceAttributeUnifiedAddressing:
      return CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
    case hipDeviceAttributeWarpSize:
      return CU_DEVICE_ATTRIBUTE_WARP_SIZE;
    case hipDeviceAttributeMemoryPoolsSupported:
      return CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace

int attribute_value(int attribute, CUdevice device) {
  // Host code cannot reach a device's memory through its address.
  if (attribute == hipDeviceAttributeIsLargeBar) return 0;
  if (attribute == hip_compat::memory_pool_handle_types) return hipMemHandleTypePosixFileDescriptor;
  int value = 0;
  check(cuDeviceGetAttribute(&value, device_attribute_of(attribute), device));
  return value;
}

}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(value != nullptr);
    *value = attribute_value(value_of(attribute), machine.device(device));
    return hipSuccess;
  });
}
