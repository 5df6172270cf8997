// SPDX-License-Identifier: MIT
#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

bool can_access(const driver& machine, int device, int peer) {
  int can = 0;
  check(cuDeviceCanAccessPeer(&can, machine.device(device), machine.device(peer)));
  return can != 0;
}

CUdevice_P2PAttribute peer_attribute_of(int attribute) {
  switch (attribute) {
    case hipDevP2PAttrPerformanceRank:
      return CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    case hipDevP2PAttrAccessSupported:
      return CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    case hipDevP2PAttrNativeAtomicSupported:
      return CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    case hipDevP2PAttrHipArrayAccessSupported:
      return CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(can != nullptr);
    require(machine.has_device(device) && machine.has_device(peer), hipErrorInvalidDevice);
    *can = device != peer && can_access(machine, device, peer) ? 1 : 0;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetP2PAttribute(int* value, hipDeviceP2PAttr attribute, int source,
                                    int destination) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(value != nullptr);
    const CUdevice_P2PAttribute wanted = peer_attribute_of(value_of(attribute));
    const CUdevice from = machine.device(source);
    const CUdevice to = machine.device(destination);
    require(source != destination, hipErrorInvalidDevice);
    check(cuDeviceGetP2PAttribute(value, wanted, from, to));
    return hipSuccess;
  });
}

// CUDA reports neither. AMD's checks come first.
hipError_t hipExtGetLinkTypeAndHopCount(int device, int peer, uint32_t* type, uint32_t* hops) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(type != nullptr && hops != nullptr && device != peer && device >= 0 && peer >= 0);
    require(machine.has_device(device) && machine.has_device(peer), hipErrorInvalidDevice);
    return hipErrorNotSupported;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return call([&](driver& machine) {
    require(flags == 0);
    const int self = current_device();
    require(machine.has_device(peer) && peer != self && can_access(machine, self, peer),
            hipErrorInvalidDevice);
    check(cuCtxEnablePeerAccess(machine.primary(peer), 0));
    return hipSuccess;
  });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return call([&](driver& machine) {
    require(machine.has_device(peer), hipErrorInvalidDevice);
    require(peer != current_device(), hipErrorPeerAccessNotEnabled);
    check(cuCtxDisablePeerAccess(machine.primary(peer)));
    return hipSuccess;
  });
}
