// SPDX-License-Identifier: MIT
#include "machine/device_properties.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>
#include <thread>

#include "base/failure.hpp"
#include "core/hip_compat.hpp"
#include "providers/properties.hpp"

namespace hipvmm::host_provider {
namespace {

// ROCm's code objects have this name for the processor of the host: no kernel was ever compiled for
// it.
constexpr std::string_view architecture = "gfx000";
// A low capability; many programs take 0 for "no device".
constexpr int capability_major = 1;
constexpr int capability_minor = 0;
// The clock of the device is the host's steady clock, in nanoseconds.
constexpr int clock_khz = 1000000;
// No machine has this domain, so that no real device is taken for this one.
constexpr int pci_domain = 0xFFFF;

// The provider launches no kernels. Programs compute launches by these before something else
// emulates them, so they are numbers that every AMD GPU takes, not a zero to divide by.
constexpr int warp_size = 1;
constexpr int most_threads = 1024;
constexpr std::array<int, 3> most_blocks{std::numeric_limits<int>::max(), 65536, 65536};

int processors() noexcept {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1U << 16U));
}

// The answer of AMD's runtimes for any device: 6.4.3 and 7.2.4, and 5.7.1, which has fewer.
struct amd_answer {
  bool is_known = true;
  int value = 0;
};

std::optional<amd_answer> answer_of_amd(const runtime& machine, int attribute) {
  const attribute_answers like = machine.rules().attributes;
  if (like == attribute_answers::of_host) return std::nullopt;
  const bool is_new = like == attribute_answers::of_amd_6;
  switch (attribute) {
    case hipDeviceAttributeConcurrentKernels:
      return amd_answer{true, 1};
    case hipDeviceAttributeMaxThreadsDim:
    case hipDeviceAttributeTccDriver:
    case hipDeviceAttributeClockInstructionRate:
      return amd_answer{false};
    case hipDeviceAttributeDeviceOverlap:
    case hipDeviceAttributeGlobalL1CacheSupported:
    case hipDeviceAttributeLocalL1CacheSupported:
    case hipDeviceAttributeStreamPrioritiesSupported:
    case hipDeviceAttributeHostNativeAtomicSupported:
      return amd_answer{is_new, 1};
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
      return amd_answer{is_new, 2};
    case hipDeviceAttributeTotalGlobalMem:
      return amd_answer{
          is_new, static_cast<int>(std::min<std::uint64_t>(machine.configuration().reported_bytes,
                                                           std::numeric_limits<int>::max()))};
    // No such cache, register, or memory of a block here.
    case hipDeviceAttributeAccessPolicyMaxWindowSize:
    case hipDeviceAttributeComputePreemptionSupported:
    case hipDeviceAttributeLuidDeviceNodeMask:
    case hipDeviceAttributeMultiGpuBoardGroupID:
    case hipDeviceAttributePersistingL2CacheMaxSize:
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
    case hipDeviceAttributeReservedSharedMemPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin:
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    // No functions for these here.
    case hipDeviceAttributeMaxSurface1D:
    case hipDeviceAttributeMaxTexture1DMipmap:
    case hipDeviceAttributeMaxTextureCubemap:
    case hipDeviceAttributeSurfaceAlignment:
    // Of a GPU on a card.
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      return amd_answer{is_new, 0};
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
      return amd_answer{true, 0};
    default:
      return std::nullopt;
  }
}

int host_attribute_of(const runtime& machine, int device, int attribute);

}  // namespace

int attribute_of(const runtime& machine, int device, int attribute) {
  const std::optional<amd_answer> like_amd = answer_of_amd(machine, attribute);
  if (!like_amd) return host_attribute_of(machine, device, attribute);
  if (!like_amd->is_known) throw failure{hipErrorInvalidValue};
  return like_amd->value;
}

std::string name_of(const runtime& machine, int device) {
  return "hipvmm host device " + std::to_string(machine.places().place_of(device));
}

namespace {

int host_attribute_of(const runtime& machine, int device, int attribute) {
  switch (attribute) {
    case hip_compat::virtual_memory_management_supported:
      return machine.rules().vmm == virtual_memory::offered ? 1 : 0;
    case hip_compat::memory_pool_handle_types:
      return hipMemHandleTypePosixFileDescriptor;
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport:
      return 1;
    case hipDeviceAttributeMemoryPoolsSupported:
      return machine.rules().pools_attribute;
    case hip_compat::host_register_supported:
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeIsLargeBar:
    case hipDeviceAttributeAsyncEngineCount:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      return 1;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount:
      return processors();
    case hipDeviceAttributeComputeCapabilityMajor:
      return capability_major;
    case hipDeviceAttributeComputeCapabilityMinor:
      return capability_minor;
    case hipDeviceAttributeWarpSize:
      return warp_size;
    case hipDeviceAttributeMaxThreadsPerBlock:
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
    case hipDeviceAttributeMaxThreadsDim:
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
      return most_threads;
    case hipDeviceAttributeMaxGridDimX:
      return most_blocks[0];
    case hipDeviceAttributeMaxGridDimY:
      return most_blocks[1];
    case hipDeviceAttributeMaxGridDimZ:
      return most_blocks[2];
    case hip_compat::wall_clock_rate:
    case hipDeviceAttributeClockRate:
    case hipDeviceAttributeClockInstructionRate:
      return clock_khz;
    case hipDeviceAttributePciDomainID:
      return pci_domain;
    case hipDeviceAttributePciBusId:
      return machine.places().place_of(device) + 1;
    case hipDeviceAttributePciDeviceId:
      return 0;
    case hipDeviceAttributeComputeMode:
      return hipComputeModeDefault;
    case hipDeviceAttributeIntegrated:
      return machine.configuration().is_integrated ? 1 : 0;
    case hipDeviceAttributePageableMemoryAccess:
      return machine.configuration().pageable_access ? 1 : 0;
    case hipDeviceAttributeConcurrentManagedAccess:
      return machine.configuration().concurrent_managed_access ? 1 : 0;
    // Memory of the host's own, or none.
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
    case hipDeviceAttributeHostNativeAtomicSupported:
    case hipDeviceAttributeEccEnabled:
    case hipDeviceAttributeL2CacheSize:
    case hipDeviceAttributeMemoryBusWidth:
    case hipDeviceAttributeMemoryClockRate:
    // Nothing that runs kernels.
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeCooperativeLaunch:
    case hipDeviceAttributeCooperativeMultiDeviceLaunch:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem:
    case hipDeviceAttributeStreamPrioritiesSupported:
    case hipDeviceAttributeKernelExecTimeout:
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
    case hipDeviceAttributeMaxRegistersPerBlock:
    case hipDeviceAttributeTotalConstantMemory:
    // No functions for these.
    case hipDeviceAttributeMaxPitch:
    case hipDeviceAttributeImageSupport:
    case hipDeviceAttributeMaxTexture1DWidth:
    case hipDeviceAttributeMaxTexture1DLinear:
    case hipDeviceAttributeMaxTexture2DWidth:
    case hipDeviceAttributeMaxTexture2DHeight:
    case hipDeviceAttributeMaxTexture3DWidth:
    case hipDeviceAttributeMaxTexture3DHeight:
    case hipDeviceAttributeMaxTexture3DDepth:
    case hipDeviceAttributeTextureAlignment:
    case hipDeviceAttributeTexturePitchAlignment:
    // A card of one's own, of no revision and without registers.
    case hipDeviceAttributeHdpMemFlushCntl:
    case hipDeviceAttributeHdpRegFlushCntl:
    case hipDeviceAttributeIsMultiGpuBoard:
    case hipDeviceAttributeTccDriver:
    case hipDeviceAttributeAsicRevision:
      return 0;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace

hipDeviceProp_t properties_of(runtime& machine, int device) {
  // Fields have values even if AMD refuses the attribute.
  const auto get = [&](int attribute) {
    const std::optional<amd_answer> like_amd = answer_of_amd(machine, attribute);
    return like_amd && like_amd->is_known ? like_amd->value
                                          : host_attribute_of(machine, device, attribute);
  };
  hipDeviceProp_t properties{};
  name_of(machine, device).copy(properties.name, sizeof(properties.name) - 1);
  architecture.copy(properties.gcnArchName, sizeof(properties.gcnArchName) - 1);
  properties.totalGlobalMem = machine.configuration().reported_bytes;
  properties.clockInstructionRate = get(hipDeviceAttributeClockInstructionRate);
  provider::set_properties(properties, uuid_of(machine, device), get);
  return properties;
}

std::string pci_address_of(const runtime& machine, int device) {
  std::array<char, 32> text{};
  std::snprintf(
      text.data(), text.size(), "%04x:%02x:%02x.0", static_cast<unsigned>(pci_domain),
      static_cast<unsigned>(attribute_of(machine, device, hipDeviceAttributePciBusId)),
      static_cast<unsigned>(attribute_of(machine, device, hipDeviceAttributePciDeviceId)));
  return text.data();
}

hipUUID uuid_of(const runtime& machine, int device) noexcept {
  constexpr std::string_view mark{"host"};
  constexpr std::string_view digits{"0123456789abcdef"};
  hipUUID made{};
  mark.copy(made.bytes, mark.size());
  // Two digits of the device, ten of the settings.
  std::uint64_t number = (static_cast<std::uint64_t>(machine.places().place_of(device)) & 0xFFU)
                             << 40U |
                         (machine.configuration().fingerprint & 0xFFFFFFFFFFU);
  for (std::size_t at = sizeof(made.bytes); at-- > mark.size(); number >>= 4U)
    made.bytes[at] = digits[number & 0xFU];
  return made;
}

}  // namespace hipvmm::host_provider
