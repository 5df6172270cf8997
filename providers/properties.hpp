// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

#include "core/hip_compat.hpp"

namespace hipvmm::provider {

/// Sets the fields that have an attribute; `attribute(number)` is the value of
/// hipDeviceGetAttribute. The caller sets name and memory size, which have none.
template <class Attribute>
void set_properties(hipDeviceProp_t& properties, const hipUUID& uuid, const Attribute& attribute) {
  properties.major = attribute(hipDeviceAttributeComputeCapabilityMajor);
  properties.minor = attribute(hipDeviceAttributeComputeCapabilityMinor);
  properties.multiProcessorCount = attribute(hipDeviceAttributeMultiprocessorCount);
  properties.warpSize = attribute(hipDeviceAttributeWarpSize);
  properties.maxThreadsPerBlock = attribute(hipDeviceAttributeMaxThreadsPerBlock);
  properties.maxThreadsPerMultiProcessor = attribute(hipDeviceAttributeMaxThreadsPerMultiProcessor);
  properties.maxThreadsDim[0] = attribute(hipDeviceAttributeMaxBlockDimX);
  properties.maxThreadsDim[1] = attribute(hipDeviceAttributeMaxBlockDimY);
  properties.maxThreadsDim[2] = attribute(hipDeviceAttributeMaxBlockDimZ);
  properties.maxGridSize[0] = attribute(hipDeviceAttributeMaxGridDimX);
  properties.maxGridSize[1] = attribute(hipDeviceAttributeMaxGridDimY);
  properties.maxGridSize[2] = attribute(hipDeviceAttributeMaxGridDimZ);
  properties.regsPerBlock = attribute(hipDeviceAttributeMaxRegistersPerBlock);
  properties.sharedMemPerBlock =
      static_cast<std::size_t>(attribute(hipDeviceAttributeMaxSharedMemoryPerBlock));
  properties.totalConstMem =
      static_cast<std::size_t>(attribute(hipDeviceAttributeTotalConstantMemory));
  properties.l2CacheSize = attribute(hipDeviceAttributeL2CacheSize);
  properties.clockRate = attribute(hipDeviceAttributeClockRate);
  properties.memoryClockRate = attribute(hipDeviceAttributeMemoryClockRate);
  properties.memoryBusWidth = attribute(hipDeviceAttributeMemoryBusWidth);
  properties.computeMode = attribute(hipDeviceAttributeComputeMode);
  properties.concurrentKernels = attribute(hipDeviceAttributeConcurrentKernels);
  properties.cooperativeLaunch = attribute(hipDeviceAttributeCooperativeLaunch);
  properties.ECCEnabled = attribute(hipDeviceAttributeEccEnabled);
  properties.integrated = attribute(hipDeviceAttributeIntegrated);
  properties.pciDomainID = attribute(hipDeviceAttributePciDomainID);
  properties.pciBusID = attribute(hipDeviceAttributePciBusId);
  properties.pciDeviceID = attribute(hipDeviceAttributePciDeviceId);
  properties.canMapHostMemory = attribute(hipDeviceAttributeCanMapHostMemory);
  properties.isLargeBar = attribute(hipDeviceAttributeIsLargeBar);
  properties.managedMemory = attribute(hipDeviceAttributeManagedMemory);
  properties.concurrentManagedAccess = attribute(hipDeviceAttributeConcurrentManagedAccess);
  properties.directManagedMemAccessFromHost =
      attribute(hipDeviceAttributeDirectManagedMemAccessFromHost);
  hip_compat::set_newer_properties(properties, uuid, attribute);
}

}  // namespace hipvmm::provider
