// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "device/device_attribute.hpp"
#include "providers/properties.hpp"

namespace hipvmm::cuda_provider {
namespace {

hipUUID uuid_of(CUdevice device) {
  CUuuid found{};
  check(cuDeviceGetUuid(&found, device));
  return same_bytes<hipUUID>(found);
}

// Fields that CUDA lacks stay 0; the architecture's name is AMD's.
hipDeviceProp_t properties_of(CUdevice device) {
  hipDeviceProp_t told{};
  check(cuDeviceGetName(told.name, sizeof(told.name), device));
  check(cuDeviceTotalMem(&told.totalGlobalMem, device));
  provider::set_properties(told, uuid_of(device),
                           [device](int attribute) { return attribute_value(attribute, device); });
  return told;
}

/// How many of the wishes of hipChooseDevice a device meets.
int wishes_met(const hipDeviceProp_t& device, const hipDeviceProp_t& wanted) noexcept {
  int met = 0;
  const auto count = [&met](auto has, auto wish) { met += has >= wish ? 1 : 0; };
  count(device.major, wanted.major);
  count(device.minor, wanted.minor);
  count(device.totalGlobalMem, wanted.totalGlobalMem);
  count(device.sharedMemPerBlock, wanted.sharedMemPerBlock);
  count(device.maxThreadsPerBlock, wanted.maxThreadsPerBlock);
  count(device.multiProcessorCount, wanted.multiProcessorCount);
  return met;
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t HIPVMM_GET_DEVICE_PROPERTIES(hipDeviceProp_t* properties, int device) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(properties != nullptr);
    *properties = properties_of(machine.device(device));
    return hipSuccess;
  });
}

hipError_t hipChooseDevice(int* device, const hipDeviceProp_t* wanted) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(device != nullptr && wanted != nullptr);
    int chosen = 0;
    int most = -1;
    for (int id = 0; id < machine.device_count(); ++id) {
      const int met = wishes_met(properties_of(machine.device(id)), *wanted);
      if (met <= most) continue;
      most = met;
      chosen = id;
    }
    *device = chosen;
    return hipSuccess;
  });
}

hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(major != nullptr && minor != nullptr);
    const CUdevice asked = machine.device(device);
    *major = attribute_value(hipDeviceAttributeComputeCapabilityMajor, asked);
    *minor = attribute_value(hipDeviceAttributeComputeCapabilityMinor, asked);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(uuid != nullptr);
    *uuid = uuid_of(machine.device(device));
    return hipSuccess;
  });
}

hipError_t hipDeviceGetPCIBusId(char* text, int length, int device) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(text != nullptr && length > 0);
    check(cuDeviceGetPCIBusId(text, length, machine.device(device)));
    return hipSuccess;
  });
}

hipError_t hipDeviceGetByPCIBusId(int* device, const char* text) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(device != nullptr && text != nullptr);
    CUdevice found = 0;
    check(cuDeviceGetByPCIBusId(&found, text));
    *device = machine.ordinal_of(found);
    return hipSuccess;
  });
}
