// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/hip_compat.hpp"
#include "fixtures.hpp"
#include "support/child_process.hpp"

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
  hipDeviceProp_t properties;
  hipUUID uuid;
  int number = 0;
  std::array<char, 16> text{};
  constexpr auto no_device = hipErrorInvalidDevice;
  check_refusals({
      {"properties null", hipGetDeviceProperties(nullptr, 0)},
      {"properties beyond", hipGetDeviceProperties(&properties, 3), no_device},
      {"properties negative", hipGetDeviceProperties(&properties, -1), no_device},
      {"capability, no major", hipDeviceComputeCapability(nullptr, &number, 0)},
      {"capability, no minor", hipDeviceComputeCapability(&number, nullptr, 0)},
      {"capability beyond", hipDeviceComputeCapability(&number, &number, 3), no_device},
      {"uuid null", hipDeviceGetUuid(nullptr, 0)},
      {"uuid beyond", hipDeviceGetUuid(&uuid, 3), no_device},
      {"pci null", hipDeviceGetPCIBusId(nullptr, 16, 0)},
      {"pci, no room", hipDeviceGetPCIBusId(text.data(), 0, 0)},
      {"pci, less than no room", hipDeviceGetPCIBusId(text.data(), -1, 0)},
      {"pci beyond", hipDeviceGetPCIBusId(text.data(), 16, 3), no_device},
      {"by pci null", hipDeviceGetByPCIBusId(nullptr, "ffff:01:00.0")},
      {"by pci without text", hipDeviceGetByPCIBusId(&number, nullptr)},
      {"by pci, empty", hipDeviceGetByPCIBusId(&number, "")},
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

TEST_CASE("hipGetDeviceProperties: the name and the memory are the device's") {
  const hipDeviceProp_t told = properties_of(2);
  std::array<char, 256> name{};
  size_t bytes = 0;
  REQUIRE(hipDeviceGetName(name.data(), 256, 2) == hipSuccess);
  REQUIRE(hipDeviceTotalMem(&bytes, 2) == hipSuccess);
  CHECK(std::string{told.name} == name.data());
  CHECK(told.totalGlobalMem == bytes);
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

TEST_CASE("hipDeviceComputeCapability: the same as the properties") {
  int major = -1;
  int minor = -1;
  CHECK(hipDeviceComputeCapability(&major, &minor, 0) == hipSuccess);
  CHECK(major == properties_of(0).major);
  CHECK(minor == properties_of(0).minor);
}

TEST_CASE("hipDeviceGetPCIBusId: is made of the numbers in the properties") {
  for (int device = 0; device < 3; ++device) {
    const hipDeviceProp_t told = properties_of(device);
    std::array<char, 32> expected{};
    std::snprintf(expected.data(), expected.size(), "%04x:%02x:%02x.0",
                  static_cast<unsigned>(told.pciDomainID), static_cast<unsigned>(told.pciBusID),
                  static_cast<unsigned>(told.pciDeviceID));
    CHECK(pci_address_of(device) == expected.data());
  }
}

TEST_CASE("hipDeviceGetPCIBusId: without room for all of it is cut and refused") {
  std::array<char, 12> text;
  text.fill('x');
  CHECK(hipDeviceGetPCIBusId(text.data(), 12, 0) == hipErrorInvalidValue);
  CHECK(std::string{text.data()} == pci_address_of(0).substr(0, 11));
}

TEST_CASE("hipDeviceGetByPCIBusId: finds each device, in any case and without the function") {
  for (int device = 0; device < 3; ++device) {
    const std::string whole = pci_address_of(device);
    std::string upper = whole;
    for (char& each : upper) each = static_cast<char>(std::toupper(each));
    for (const std::string& text : {whole, upper, whole.substr(0, 10)}) {
      CAPTURE(text);
      int found = -1;
      CHECK(hipDeviceGetByPCIBusId(&found, text.c_str()) == hipSuccess);
      CHECK(found == device);
    }
  }
}

TEST_CASE("hipDeviceGetUuid: is the same each time and another for each device") {
  std::array<hipUUID, 3> all{};
  for (int device = 0; device < 3; ++device) {
    hipUUID again{};
    auto& first = all[static_cast<std::size_t>(device)];
    REQUIRE(hipDeviceGetUuid(&first, device) == hipSuccess);
    REQUIRE(hipDeviceGetUuid(&again, device) == hipSuccess);
    CHECK(std::memcmp(&first, &again, sizeof(again)) == 0);
  }
  CHECK(std::memcmp(&all[0], &all[1], sizeof(hipUUID)) != 0);
  CHECK(std::memcmp(&all[1], &all[2], sizeof(hipUUID)) != 0);
}

constexpr const char* uuid_case = "hipDeviceGetUuid: the child writes it";

TEST_CASE("hipDeviceGetUuid: the child writes it" * doctest::skip()) {
  hipUUID uuid{};
  REQUIRE(hipDeviceGetUuid(&uuid, 0) == hipSuccess);
  std::printf("<%.*s>\n", static_cast<int>(sizeof(uuid.bytes)), uuid.bytes);
}

std::string uuid_in_child(const std::vector<std::string>& environment) {
  const child_result child = run_case_in_child(uuid_case, environment);
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
}

TEST_CASE("hipModuleUnload: there is no module to unload") {
  check_refusals({
      {"null", hipModuleUnload(nullptr), hipErrorInvalidHandle},
      {"any", hipModuleUnload(as_handle<hipModule_t>(64)), hipErrorInvalidHandle},
  });
}
