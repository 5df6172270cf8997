// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/hip_compat.hpp"
#include "providers/host/tests/fixtures.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm::test;

namespace {

hipDeviceProp_t properties_of(int device) {
  hipDeviceProp_t properties;
  std::memset(&properties, 0xFF, sizeof(properties));
  REQUIRE(hipGetDeviceProperties(&properties, device) == hipSuccess);
  return properties;
}

std::string pci_address_of(int device) {
  std::array<char, 13> text{};
  REQUIRE(hipDeviceGetPCIBusId(text.data(), 13, device) == hipSuccess);
  return text.data();
}

}  // namespace

TEST_CASE("device properties: arguments outside the rules are refused") {
  int number = 0;
  check_refusals({
      {"by pci, begun", hipDeviceGetByPCIBusId(&number, "ffff:")},
      {"by pci, another domain", hipDeviceGetByPCIBusId(&number, "0000:01:00.0")},
      {"by pci, another bus", hipDeviceGetByPCIBusId(&number, "ffff:09:00.0")},
      {"by pci, more", hipDeviceGetByPCIBusId(&number, "ffff:01:00.0x")},
  });
}

TEST_CASE("hipGetDeviceProperties: fields are what the attributes say") {
  const hipDeviceProp_t told = properties_of(1);
  struct row {
    hipDeviceAttribute_t attribute;
    int field;
  };
  for (const auto& [attribute, field] : {
           row{hipDeviceAttributeComputeCapabilityMajor, told.major},
           row{hipDeviceAttributeComputeCapabilityMinor, told.minor},
           row{hipDeviceAttributeMultiprocessorCount, told.multiProcessorCount},
           row{hipDeviceAttributeWarpSize, told.warpSize},
           row{hipDeviceAttributeMaxThreadsPerBlock, told.maxThreadsPerBlock},
           row{hipDeviceAttributeMaxThreadsPerMultiProcessor, told.maxThreadsPerMultiProcessor},
           row{hipDeviceAttributeMaxBlockDimX, told.maxThreadsDim[0]},
           row{hipDeviceAttributeMaxBlockDimY, told.maxThreadsDim[1]},
           row{hipDeviceAttributeMaxBlockDimZ, told.maxThreadsDim[2]},
           row{hipDeviceAttributeMaxGridDimX, told.maxGridSize[0]},
           row{hipDeviceAttributeMaxGridDimY, told.maxGridSize[1]},
           row{hipDeviceAttributeMaxGridDimZ, told.maxGridSize[2]},
           row{hipDeviceAttributeClockRate, told.clockRate},
           row{hipDeviceAttributeClockInstructionRate, told.clockInstructionRate},
           row{hipDeviceAttributeMemoryClockRate, told.memoryClockRate},
           row{hipDeviceAttributeMemoryBusWidth, told.memoryBusWidth},
           row{hipDeviceAttributeL2CacheSize, told.l2CacheSize},
           row{hipDeviceAttributeMaxRegistersPerBlock, told.regsPerBlock},
           row{hipDeviceAttributeComputeMode, told.computeMode},
           row{hipDeviceAttributePciDomainID, told.pciDomainID},
           row{hipDeviceAttributePciBusId, told.pciBusID},
           row{hipDeviceAttributePciDeviceId, told.pciDeviceID},
           row{hipDeviceAttributeConcurrentKernels, told.concurrentKernels},
           row{hipDeviceAttributeCanMapHostMemory, told.canMapHostMemory},
           row{hipDeviceAttributeIntegrated, told.integrated},
           row{hipDeviceAttributeIsMultiGpuBoard, told.isMultiGpuBoard},
           row{hipDeviceAttributeCooperativeLaunch, told.cooperativeLaunch},
           row{hipDeviceAttributeKernelExecTimeout, told.kernelExecTimeoutEnabled},
           row{hipDeviceAttributeEccEnabled, told.ECCEnabled},
           row{hipDeviceAttributeIsLargeBar, told.isLargeBar},
           row{hipDeviceAttributeAsicRevision, told.asicRevision},
           row{hipDeviceAttributeMaxTexture1DWidth, told.maxTexture1D},
           row{hipDeviceAttributeManagedMemory, told.managedMemory},
           row{hipDeviceAttributeConcurrentManagedAccess, told.concurrentManagedAccess},
           row{hipDeviceAttributeDirectManagedMemAccessFromHost,
               told.directManagedMemAccessFromHost},
           row{hipDeviceAttributePageableMemoryAccess, told.pageableMemoryAccess},
       }) {
    CAPTURE(attribute);
    int value = -1;
    CHECK(hipDeviceGetAttribute(&value, attribute, 1) == hipSuccess);
    CHECK(value == field);
  }
}

TEST_CASE("hipGetDeviceProperties: the architecture is one that no kernel is compiled for") {
  CHECK(std::string{properties_of(0).gcnArchName} == "gfx000");
}

TEST_CASE("hipGetDeviceProperties: a launch can be sized by it") {
  const hipDeviceProp_t told = properties_of(0);
  CHECK(told.warpSize == 1);
  CHECK(told.maxThreadsPerBlock == 1024);
  CHECK(told.maxThreadsPerMultiProcessor == 1024);
  CHECK(told.multiProcessorCount > 0);
  for (int dimension = 0; dimension < 3; ++dimension) {
    CAPTURE(dimension);
    CHECK(told.maxThreadsDim[dimension] == 1024);
    CHECK(told.maxGridSize[dimension] >= 65536);
  }
}

TEST_CASE("device attributes: clocks tick in nanoseconds, as the host's does") {
  for (const int clock : {static_cast<int>(hipDeviceAttributeClockRate),
                          static_cast<int>(hipDeviceAttributeClockInstructionRate),
                          hipvmm::hip_compat::wall_clock_rate}) {
    CAPTURE(clock);
    int khz = 0;
    CHECK(hipDeviceGetAttribute(&khz, static_cast<hipDeviceAttribute_t>(clock), 0) == hipSuccess);
    CHECK(khz == 1000000);
  }
}

TEST_CASE("device attributes: memory can be fine-grained and streams wait for values") {
  for (const auto attribute :
       {hipDeviceAttributeFineGrainSupport, hipDeviceAttributeCanUseStreamWaitValue}) {
    CAPTURE(attribute);
    int value = -1;
    CHECK(hipDeviceGetAttribute(&value, attribute, 0) == hipSuccess);
    CHECK(value == 1);
  }
}

TEST_CASE("device attributes: those younger than the header are answered too") {
  struct row {
    int attribute;
    int expected;
  };
  for (const auto& [attribute, expected] :
       {row{hipvmm::hip_compat::host_register_supported, 1},
        row{hipvmm::hip_compat::memory_pool_handle_types, hipMemHandleTypePosixFileDescriptor}}) {
    CAPTURE(attribute);
    int value = -1;
    CHECK(hipDeviceGetAttribute(&value, static_cast<hipDeviceAttribute_t>(attribute), 0) ==
          hipSuccess);
    CHECK(value == expected);
  }
}

TEST_CASE("hipDeviceGetPCIBusId: without room for all of it is cut and refused") {
  std::array<char, 12> text;
  text.fill('x');
  CHECK(hipDeviceGetPCIBusId(text.data(), 12, 0) == hipErrorInvalidValue);
  CHECK(std::string{text.data()} == pci_address_of(0).substr(0, 11));
}

HIPVMM_CHILD("writes its uuid") {
  hipUUID uuid{};
  REQUIRE(hipDeviceGetUuid(&uuid, 0) == hipSuccess);
  std::printf("<%.*s>\n", static_cast<int>(sizeof(uuid.bytes)), uuid.bytes);
}

std::string uuid_in_child(const std::vector<std::string>& environment) {
  const child_result child = run_child("writes its uuid", environment);
  CHECK_MESSAGE(passed(child), child.output);
  const std::size_t start = child.output.find('<');
  return child.output.substr(start, child.output.find('>') - start);
}

TEST_CASE("hipDeviceGetUuid: differs where the settings make devices behave otherwise") {
  const std::string here = uuid_in_child({});
  CHECK(uuid_in_child({}) == here);
  for (const char* setting :
       {"HIPVMM_HOST_PROFILE=rocm-7.1", "HIPVMM_HOST_DEVICES=4", "HIPVMM_HOST_MEMORY=96MiB",
        "HIPVMM_HOST_PEERS=none", "HIPVMM_HOST_GRANULARITY=64KiB", "HIPVMM_HOST_ADDRESS_SPACE=1GiB",
        "HIPVMM_HOST_FAULTS=visible_after=2ms"}) {
    CAPTURE(setting);
    // Those that are as they would be anyhow, when the whole run has them, are none to tell apart.
    const std::string name{setting, std::strchr(setting, '=')};
    const char* const set = std::getenv(name.c_str());
    if (set != nullptr && name + "=" + set == setting) continue;
    CHECK(uuid_in_child({setting}) != here);
  }
  CHECK(uuid_in_child({"HIPVMM_HOST_TOUCH=granted"}) !=
        uuid_in_child({"HIPVMM_HOST_TOUCH=devices"}));
}

TEST_CASE("hipModuleUnload: there is no module to unload") {
  check_refusals({
      {"null", hipModuleUnload(nullptr), hipErrorInvalidHandle},
      {"any", hipModuleUnload(as_handle<hipModule_t>(64)), hipErrorInvalidHandle},
  });
}
