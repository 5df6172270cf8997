// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>
#include <string_view>

#include "base/enum_value.hpp"
#include "base/thread_state.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "machine/device_properties.hpp"
#include "pool/mem_pool_set.hpp"

namespace hipvmm::host_provider {
namespace {

// ROCr's number for PCIe, hsa_amd_link_info_type_t.
constexpr int pcie_link = 2;

// AMD reports the type of the link as its rank; CUDA orders links, 0 being the best. Neither
// atomics nor arrays exist here.
int peer_attribute(int attribute, bool linked, peer_rank rank) noexcept {
  switch (attribute) {
    case hipDevP2PAttrPerformanceRank:
      if (rank == peer_rank::order) return linked ? 0 : 1;
      return pcie_link;
    case hipDevP2PAttrAccessSupported:
      return linked ? 1 : 0;
    default:
      return 0;
  }
}

// Cuts the text if there is too little room.
bool copy_cut(const std::string& text, char* to, int room) {
  const std::size_t end = text.copy(to, static_cast<std::size_t>(room) - 1);
  to[end] = '\0';
  return end == text.size();
}

// Ignores case, and a missing function at the end.
bool names_pci_address(std::string_view text, std::string_view address) {
  const std::string_view without_function = address.substr(0, address.find('.'));
  const auto same = [](char a, char b) { return a == b || (a >= 'A' && a <= 'F' && a + 32 == b); };
  return std::ranges::equal(text, address, same) ||
         std::ranges::equal(text, without_function, same);
}

hipError_t write_version(const runtime& machine, int* version) {
  require(version != nullptr);
  *version = machine.rules().version;
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
  return call(__func__, device_need::none,
              [&](runtime& machine) { return write_version(machine, version); });
}

hipError_t hipRuntimeGetVersion(int* version) {
  return call(__func__, device_need::none,
              [&](runtime& machine) { return write_version(machine, version); });
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
    machine.device(device).used = true;
    current_device() = device;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned int* flags, int* active) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr && active != nullptr);
    const device_state& asked = machine.device(device);
    *flags = asked.preferences.schedule;
    *active = asked.used ? 1 : 0;
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

hipError_t hipChooseDevice(int* device, const hipDeviceProp_t* wanted) {
  // One name for the plan of faults under any header.
  return call("hipChooseDevice", [&](runtime&) {
    require(device != nullptr && wanted != nullptr);
    *device = 0;  // all are alike
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(name != nullptr && length > 0);
    require(machine.has_device(device), hipErrorInvalidDevice);
    copy_cut(name_of(machine, device), name, length);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return call(__func__, [&](runtime& machine) {
    require(value != nullptr);
    require(machine.has_device(device), hipErrorInvalidDevice);
    *value = attribute_of(machine, device, value_of(attribute));
    return hipSuccess;
  });
}

hipError_t HIPVMM_GET_DEVICE_PROPERTIES(hipDeviceProp_t* properties, int device) {
  // One name for the plan of faults under any header.
  return call("hipGetDeviceProperties", [&](runtime& machine) {
    require(properties != nullptr);
    require(machine.has_device(device), hipErrorInvalidDevice);
    *properties = properties_of(machine, device);
    return hipSuccess;
  });
}

hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(major != nullptr && minor != nullptr);
    require(machine.has_device(device), hipErrorInvalidDevice);
    *major = attribute_of(machine, device, hipDeviceAttributeComputeCapabilityMajor);
    *minor = attribute_of(machine, device, hipDeviceAttributeComputeCapabilityMinor);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(uuid != nullptr);
    require(machine.has_device(device), hipErrorInvalidDevice);
    *uuid = uuid_of(machine, device);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetPCIBusId(char* text, int length, int device) {
  return call(__func__, [&](runtime& machine) {
    require(text != nullptr && length > 0);
    require(machine.has_device(device), hipErrorInvalidDevice);
    require(copy_cut(pci_address_of(machine, device), text, length));
    return hipSuccess;
  });
}

hipError_t hipDeviceGetByPCIBusId(int* device, const char* text) {
  return call(__func__, [&](runtime& machine) {
    require(device != nullptr && text != nullptr);
    for (int id = 0; id < machine.device_count(); ++id) {
      if (!names_pci_address(text, pci_address_of(machine, id))) continue;
      *device = id;
      return hipSuccess;
    }
    return hipErrorInvalidValue;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(bytes != nullptr);
    static_cast<void>(machine.device(device));
    *bytes = machine.configuration().reported_bytes;
    return hipSuccess;
  });
}

hipError_t hipDeviceSynchronize() {
  return call(__func__, [](runtime& machine) {
    machine.captures().refuse_wait_for_device(current_device());
    stream_set& streams = machine.device(current_device()).streams;
    streams.wait_all();
    machine.pools().release_surplus();
    return streams.take_errors(true);
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
    if (device == peer && machine.rules().same_device == self_peer::always_zero) {
      *can_access = 0;
      return hipSuccess;
    }
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
    *value = peer_attribute(wanted, machine.linked(source, destination), machine.rules().rank);
    return hipSuccess;
  });
}

hipError_t hipExtGetLinkTypeAndHopCount(int device, int peer, uint32_t* type, uint32_t* hops) {
  return call(__func__, [&](runtime& machine) {
    require(type != nullptr && hops != nullptr && device != peer && device >= 0 && peer >= 0);
    require(machine.has_device(device) && machine.has_device(peer), hipErrorInvalidDevice);
    require(machine.rules().links == link_report::type_and_hops, hipErrorNotSupported);
    *type = pcie_link;
    *hops = 1;
    return hipSuccess;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(flags == 0);
    const int self = current_device();
    require(machine.has_device(peer) && machine.linked(self, peer), hipErrorInvalidDevice);
    return machine.peers().enable(self, peer) ? hipErrorPeerAccessAlreadyEnabled : hipSuccess;
  });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return call(__func__, [&](runtime& machine) {
    require(machine.has_device(peer), hipErrorInvalidDevice);
    require(machine.linked(current_device(), peer), machine.rules().disable_unlinked);
    return machine.peers().disable(current_device(), peer) ? hipSuccess
                                                           : hipErrorPeerAccessNotEnabled;
  });
}
