// SPDX-License-Identifier: MIT
#include <algorithm>
#include <climits>
#include <string>
#include <thread>

#include "call.hpp"
#include "core/hip_compat.hpp"
#include "enum_value.hpp"
#include "mem_pool_set.hpp"
#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

// The attributes this provider has something true to say about.
int attribute_of(int attribute) {
  if (attribute == hip_compat::virtual_memory_management_supported) return 1;
  switch (attribute) {
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeIsLargeBar:
    case hipDeviceAttributeAsyncEngineCount:
    case hipDeviceAttributeMemoryPoolsSupported:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeConcurrentManagedAccess:
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      return 1;
    case hipDeviceAttributeMultiprocessorCount:
      return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1U << 16U));
    case hipDeviceAttributeComputeMode:
      return hipComputeModeDefault;
    case hipDeviceAttributeIntegrated:
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributePageableMemoryAccess:
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
    case hipDeviceAttributeStreamPrioritiesSupported:
    case hipDeviceAttributeHostNativeAtomicSupported:
    case hipDeviceAttributeCooperativeLaunch:
      return 0;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

// AMD reports the type of the link as its rank, 3 being PCIe. There is nothing here that could run
// an atomic operation or use an array.
int peer_attribute(int attribute, bool linked) noexcept {
  switch (attribute) {
    case hipDevP2PAttrPerformanceRank:
      return linked ? 3 : 0;
    case hipDevP2PAttrAccessSupported:
      return linked ? 1 : 0;
    default:
      return 0;
  }
}

hipError_t write_version(int* version) {
  require(version != nullptr);
  *version = HIP_VERSION;
  return hipSuccess;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipInit(unsigned int flags) {
  return call(__func__, [&](runtime&) {
    require(flags == 0);
    return hipSuccess;
  });
}

hipError_t hipDriverGetVersion(int* version) {
  return call(__func__, device_need::none, [&](runtime&) { return write_version(version); });
}

hipError_t hipRuntimeGetVersion(int* version) {
  return call(__func__, device_need::none, [&](runtime&) { return write_version(version); });
}

hipError_t hipGetDeviceCount(int* count) {
  return call(__func__, device_need::none, [&](runtime& machine) {
    require(count != nullptr);
    *count = machine.device_count();
    return *count == 0 ? hipErrorNoDevice : hipSuccess;
  });
}

hipError_t hipGetDevice(int* device) {
  return call(__func__, [&](runtime&) {
    require(device != nullptr);
    *device = current_device();
    return hipSuccess;
  });
}

hipError_t hipSetDevice(int device) {
  return call(__func__, [&](runtime& machine) {
    require(machine.has_device(device), hipErrorInvalidDevice);
    current_device() = device;
    return hipSuccess;
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return call(__func__, [&](runtime& machine) {
    require(device != nullptr);
    require(machine.has_device(ordinal), hipErrorInvalidDevice);
    *device = ordinal;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(name != nullptr && length > 0);
    require(machine.has_device(device), hipErrorInvalidDevice);
    const std::string full = "hipvmm host device " + std::to_string(device);
    const std::size_t end = full.copy(name, static_cast<std::size_t>(length) - 1);
    name[end] = '\0';
    return hipSuccess;
  });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return call(__func__, [&](runtime& machine) {
    require(value != nullptr);
    require(machine.has_device(device), hipErrorInvalidDevice);
    *value = attribute_of(value_of(attribute));
    return hipSuccess;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(bytes != nullptr);
    *bytes = machine.device(device).memory.budget();
    return hipSuccess;
  });
}

hipError_t hipDeviceSynchronize() {
  return call(__func__, [](runtime& machine) {
    stream_set& streams = machine.device(current_device()).streams;
    streams.wait_all();
    machine.pools().release_surplus();
    return streams.take_errors();
  });
}

hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call(__func__, [&](runtime&) {
    if (least != nullptr) *least = least_priority;
    if (greatest != nullptr) *greatest = greatest_priority;
    return hipSuccess;
  });
}

hipError_t hipDeviceCanAccessPeer(int* can_access, int device, int peer) {
  return call(__func__, [&](runtime& machine) {
    require(can_access != nullptr);
    require(machine.has_device(device) && machine.has_device(peer), hipErrorInvalidDevice);
    *can_access = machine.linked(device, peer) ? 1 : 0;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetP2PAttribute(int* value, hipDeviceP2PAttr attribute, int source,
                                    int destination) {
  return call(__func__, [&](runtime& machine) {
    require(value != nullptr);
    const int wanted = value_of(attribute);
    require(wanted >= hipDevP2PAttrPerformanceRank &&
            wanted <= hipDevP2PAttrHipArrayAccessSupported);
    require(machine.has_device(source) && machine.has_device(destination), hipErrorInvalidDevice);
    require(source != destination, hipErrorInvalidDevice);
    *value = peer_attribute(wanted, machine.linked(source, destination));
    return hipSuccess;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(flags == 0);
    const int self = current_device();
    require(machine.has_device(peer) && machine.linked(self, peer), hipErrorInvalidDevice);
    const device_set before = machine.device(self).peers.fetch_or(only(peer));
    return (before & only(peer)) != 0 ? hipErrorPeerAccessAlreadyEnabled : hipSuccess;
  });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return call(__func__, [&](runtime& machine) {
    require(machine.has_device(peer), hipErrorInvalidDevice);
    const device_set before = machine.device(current_device()).peers.fetch_and(~only(peer));
    return (before & only(peer)) == 0 ? hipErrorPeerAccessNotEnabled : hipSuccess;
  });
}
