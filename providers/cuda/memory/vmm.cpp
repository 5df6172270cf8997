// SPDX-License-Identifier: MIT
#include "memory/vmm.hpp"

#include "base/call.hpp"
#include "base/call_delay.hpp"
#include "base/cuda_compat.hpp"
#include "core/hip_compat.hpp"

namespace hipvmm::cuda_provider {
namespace {

// CU_MEM_HANDLE_TYPE_FABRIC is newer than 12.2 and has the same number.
constexpr int exported_kinds = hipMemHandleTypePosixFileDescriptor | hip_compat::fabric_handle_kind;

CUmemAllocationHandleType chunk_handle_types(int kinds) {
  require((kinds & ~exported_kinds) == 0, hipErrorNotSupported);
  return static_cast<CUmemAllocationHandleType>(kinds);
}

// Memory that other processes may use is open to network cards too if the device can do that,
// because HIP's older headers have no field to request it.
bool is_for_network_cards(const driver& machine, const hipMemAllocationProp& wanted) {
  if (hip_compat::handle_kinds(wanted) == hipMemHandleTypeNone ||
      value_of(wanted.location.type) != hipMemLocationTypeDevice)
    return false;
  int can = 0;
  return cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                              machine.device(wanted.location.id)) == CUDA_SUCCESS &&
         can != 0;
}

CUmemAllocationProp properties_of(const driver& machine, const hipMemAllocationProp& wanted,
                                  hipError_t missing_device) {
  require(value_of(wanted.type) == hipMemAllocationTypePinned);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  if (value_of(wanted.location.type) == hip_compat::host_location) {
    require(cuda_compat::place_on_host(properties.location));
  } else if (hip_compat::is_on_host_node(wanted.location)) {
    require(cuda_compat::place_on_host_node(properties.location, wanted.location.id));
  } else {
    properties.location = device_location(machine, wanted.location, missing_device);
  }
  properties.requestedHandleTypes = chunk_handle_types(hip_compat::handle_kinds(wanted));
  properties.allocFlags.compressionType = hip_compat::compression_type(wanted);
  properties.allocFlags.usage = hip_compat::usage(wanted);
  properties.allocFlags.gpuDirectRDMACapable = is_for_network_cards(machine, wanted) ? 1 : 0;
  return properties;
}

hipMemAllocationProp properties_to_hip(const driver& machine, const CUmemAllocationProp& found) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  if (cuda_compat::is_on_host(found.location)) {
    properties.location = hip_compat::place_on_host();
  } else if (cuda_compat::is_on_host_node(found.location)) {
    properties.location = hip_compat::place_on_host_node(found.location.id);
  } else {
    properties.location.type = hipMemLocationTypeDevice;
    properties.location.id = machine.ordinal_of(found.location.id);
  }
  hip_compat::set_handle_kinds(properties,
                               static_cast<int>(found.requestedHandleTypes) & exported_kinds);
  hip_compat::compression_type(properties) = found.allocFlags.compressionType;
  hip_compat::usage(properties) = found.allocFlags.usage;
  return properties;
}

CUmemAllocationGranularity_flags granularity_option_of(int option) {
  switch (option) {
    case hipMemAllocationGranularityMinimum:
      return CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    case hipMemAllocationGranularityRecommended:
      return CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace

CUmemLocation device_location(const driver& machine, const hipMemLocation& location,
                              hipError_t missing) {
  require(value_of(location.type) == hipMemLocationTypeDevice);
  require(machine.has_device(location.id), missing);
  CUmemLocation translated{};
  translated.type = CU_MEM_LOCATION_TYPE_DEVICE;
  translated.id = machine.device(location.id);
  return translated;
}

}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMemGetAllocationGranularity(size_t* granularity, const hipMemAllocationProp* wanted,
                                          hipMemAllocationGranularity_flags option) {
  return call_anywhere([&](driver& machine) {
    require(granularity != nullptr && wanted != nullptr);
    const CUmemAllocationProp properties = properties_of(machine, *wanted, hipErrorInvalidValue);
    check(cuMemGetAllocationGranularity(granularity, &properties,
                                        granularity_option_of(value_of(option))));
    return hipSuccess;
  });
}

hipError_t hipMemAddressReserve(void** pointer, size_t bytes, size_t alignment, void* hint,
                                unsigned long long flags) {
  return call_anywhere([&](driver&) {
    require(pointer != nullptr && flags == 0);
    CUdeviceptr start = 0;
    check(cuMemAddressReserve(&start, bytes, alignment, to_cuda(hint), 0));
    *pointer = to_pointer(start);
    return hipSuccess;
  });
}

hipError_t hipMemAddressFree(void* pointer, size_t bytes) {
  return call_anywhere([&](driver&) {
    require(pointer != nullptr && bytes != 0);
    check(cuMemAddressFree(to_cuda(pointer), bytes));
    return hipSuccess;
  });
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, size_t bytes,
                        const hipMemAllocationProp* wanted, unsigned long long flags) {
  return call_anywhere([&](driver& machine) {
    require(handle != nullptr && wanted != nullptr && flags == 0);
    delay(priced_call::create);
    const CUmemAllocationProp properties = properties_of(machine, *wanted, hipErrorInvalidDevice);
    CUmemGenericAllocationHandle made = 0;
    check(cuMemCreate(&made, bytes, &properties, 0));
    *handle = chunk_to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  return call_anywhere([&](driver&) {
    require(handle != nullptr);
    delay(priced_call::release);
    check(cuMemRelease(to_cuda(handle)));
    return hipSuccess;
  });
}

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t* handle, void* pointer) {
  return call_anywhere([&](driver&) {
    require(handle != nullptr && pointer != nullptr);
    CUmemGenericAllocationHandle found = 0;
    check(cuMemRetainAllocationHandle(&found, pointer));
    *handle = chunk_to_hip(found);
    return hipSuccess;
  });
}

hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp* properties,
                                                   hipMemGenericAllocationHandle_t handle) {
  return call_anywhere([&](driver& machine) {
    require(properties != nullptr && handle != nullptr);
    CUmemAllocationProp found{};
    check(cuMemGetAllocationPropertiesFromHandle(&found, to_cuda(handle)));
    *properties = properties_to_hip(machine, found);
    return hipSuccess;
  });
}

hipError_t hipMemMap(void* pointer, size_t bytes, size_t offset,
                     hipMemGenericAllocationHandle_t handle, unsigned long long flags) {
  return call_anywhere([&](driver&) {
    require(pointer != nullptr && handle != nullptr && bytes != 0 && offset == 0 && flags == 0);
    delay(priced_call::map);
    check(cuMemMap(to_cuda(pointer), bytes, 0, to_cuda(handle), 0));
    return hipSuccess;
  });
}

hipError_t hipMemUnmap(void* pointer, size_t bytes) {
  return call_anywhere([&](driver&) {
    require(pointer != nullptr && bytes != 0);
    delay(priced_call::unmap);
    check(cuMemUnmap(to_cuda(pointer), bytes));
    return hipSuccess;
  });
}

// CUDA maps sparse arrays by this; the provider has no arrays.
hipError_t hipMemMapArrayAsync(hipArrayMapInfo* maps, unsigned int count, hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    require(maps != nullptr && count != 0);
    return hipErrorNotSupported;
  });
}
