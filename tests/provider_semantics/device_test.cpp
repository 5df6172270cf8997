// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>

#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

// Domain, bus, device and function, and the end.
constexpr int pci_address_bytes = 13;

hipDeviceProp_t properties_of(int device) {
  hipDeviceProp_t properties;
  std::memset(&properties, 0xFF, sizeof(properties));
  REQUIRE(hipGetDeviceProperties(&properties, device) == hipSuccess);
  return properties;
}

int attribute_of(int device, hipDeviceAttribute_t attribute) {
  int value = -1;
  REQUIRE(hipDeviceGetAttribute(&value, attribute, device) == hipSuccess);
  return value;
}

std::string pci_address_of(int device) {
  std::array<char, pci_address_bytes> text{};
  REQUIRE(hipDeviceGetPCIBusId(text.data(), pci_address_bytes, device) == hipSuccess);
  return text.data();
}

hipUUID uuid_of(int device) {
  hipUUID uuid{};
  REQUIRE(hipDeviceGetUuid(&uuid, device) == hipSuccess);
  return uuid;
}

std::string in_upper_case(std::string text) {
  for (char& each : text) each = static_cast<char>(std::toupper(each));
  return text;
}

std::string in_lower_case(std::string text) {
  for (char& each : text) each = static_cast<char>(std::tolower(each));
  return text;
}

}  // namespace

TEST_CASE("device properties: their arguments") {
  hipDeviceProp_t properties;
  hipUUID uuid;
  int number = 0;
  check_rules({
      {"properties", [&] { return hipGetDeviceProperties(&properties, 0); }, hipSuccess},
      {"properties without a result", [] { return hipGetDeviceProperties(nullptr, 0); }},
      {"properties of no such device",
       [&] { return hipGetDeviceProperties(&properties, no_device); }, hipErrorInvalidDevice},
      {"properties of device -1", [&] { return hipGetDeviceProperties(&properties, -1); },
       hipErrorInvalidDevice},
      {"capability without a major number",
       [&] { return hipDeviceComputeCapability(nullptr, &number, 0); }},
      {"capability without a minor number",
       [&] { return hipDeviceComputeCapability(&number, nullptr, 0); }},
      {"capability of no such device",
       [&] { return hipDeviceComputeCapability(&number, &number, no_device); },
       hipErrorInvalidDevice},
      {"UUID without a result", [] { return hipDeviceGetUuid(nullptr, 0); }},
      {"UUID of no such device", [&] { return hipDeviceGetUuid(&uuid, no_device); },
       hipErrorInvalidDevice},
  });
}

TEST_CASE("device properties: are what the functions for one of them tell") {
  for (int device = 0; device < device_count(); ++device) {
    const hipDeviceProp_t told = properties_of(device);
    std::array<char, 256> name{};
    std::size_t bytes = 0;
    int major = -1;
    int minor = -1;
    CHECK(hipDeviceGetName(name.data(), 256, device) == hipSuccess);
    CHECK(hipDeviceTotalMem(&bytes, device) == hipSuccess);
    CHECK(hipDeviceComputeCapability(&major, &minor, device) == hipSuccess);
    CHECK(std::string{told.name} == name.data());
    CHECK(told.totalGlobalMem == bytes);
    CHECK(told.major == major);
    CHECK(told.minor == minor);
  }
}

TEST_CASE("device properties: are what the attributes tell") {
  const hipDeviceProp_t told = properties_of(0);
  const struct {
    hipDeviceAttribute_t attribute;
    int field;
  } rows[] = {
      {hipDeviceAttributeComputeCapabilityMajor, told.major},
      {hipDeviceAttributeComputeCapabilityMinor, told.minor},
      {hipDeviceAttributeMultiprocessorCount, told.multiProcessorCount},
      {hipDeviceAttributeWarpSize, told.warpSize},
      {hipDeviceAttributeMaxThreadsPerBlock, told.maxThreadsPerBlock},
      {hipDeviceAttributeMaxBlockDimX, told.maxThreadsDim[0]},
      {hipDeviceAttributeMaxGridDimX, told.maxGridSize[0]},
      {hipDeviceAttributePciDomainID, told.pciDomainID},
      {hipDeviceAttributePciBusId, told.pciBusID},
      {hipDeviceAttributePciDeviceId, told.pciDeviceID},
      {hipDeviceAttributeIntegrated, told.integrated},
      {hipDeviceAttributeCanMapHostMemory, told.canMapHostMemory},
      {hipDeviceAttributeManagedMemory, told.managedMemory},
      {hipDeviceAttributeIsLargeBar, told.isLargeBar},
  };
  for (const auto& row : rows) {
    CAPTURE(row.attribute);
    CHECK(attribute_of(0, row.attribute) == row.field);
  }
}

TEST_CASE("device UUID: is the same each time and another for each device") {
  for (int device = 0; device < device_count(); ++device) {
    const hipUUID first = uuid_of(device);
    for (int other = 0; other < device_count(); ++other) {
      const hipUUID second = uuid_of(other);
      CHECK((std::memcmp(&first, &second, sizeof(first)) == 0) == (other == device));
    }
  }
}

TEST_CASE("PCI address: its arguments") {
  std::array<char, pci_address_bytes> text{};
  const std::string address = pci_address_of(0);
  int device = 0;
  check_rules({
      {"without a result", [] { return hipDeviceGetPCIBusId(nullptr, pci_address_bytes, 0); }},
      {"no room", [&] { return hipDeviceGetPCIBusId(text.data(), 0, 0); }},
      {"less than no room", [&] { return hipDeviceGetPCIBusId(text.data(), -1, 0); }},
      {"no room for the end",
       [&] { return hipDeviceGetPCIBusId(text.data(), pci_address_bytes - 1, 0); }},
      {"of no such device",
       [&] { return hipDeviceGetPCIBusId(text.data(), pci_address_bytes, no_device); },
       hipErrorInvalidDevice},
      {"device by it, without a result",
       [&] { return hipDeviceGetByPCIBusId(nullptr, address.c_str()); }},
      {"device by none", [&] { return hipDeviceGetByPCIBusId(&device, nullptr); }},
  });
}

TEST_CASE("PCI address: is made of the numbers in the attributes") {
  for (int device = 0; device < device_count(); ++device) {
    std::array<char, 32> expected{};
    std::snprintf(expected.data(), expected.size(), "%04x:%02x:%02x.0",
                  static_cast<unsigned>(attribute_of(device, hipDeviceAttributePciDomainID)),
                  static_cast<unsigned>(attribute_of(device, hipDeviceAttributePciBusId)),
                  static_cast<unsigned>(attribute_of(device, hipDeviceAttributePciDeviceId)));
    // CUDA writes upper case.
    CHECK(in_lower_case(pci_address_of(device)) == expected.data());
  }
}

TEST_CASE("PCI address: names its device, in any case and without the function") {
  for (int device = 0; device < device_count(); ++device) {
    const std::string whole = pci_address_of(device);
    const std::string without_function = whole.substr(0, whole.find('.'));
    for (const std::string& text :
         {whole, in_upper_case(whole), in_lower_case(whole), without_function}) {
      CAPTURE(text);
      int found = -1;
      CHECK(hipDeviceGetByPCIBusId(&found, text.c_str()) == hipSuccess);
      CHECK(found == device);
    }
  }
}

TEST_CASE("PCI address: a text that names no device is refused") {
  // The domain of the last is no machine's.
  for (const char* const text : {"", "0000:", "fffe:fe:1e.0"}) {
    CAPTURE(text);
    int found = -1;
    const hipError_t code = hipDeviceGetByPCIBusId(&found, text);
    // CUDA's documentation has both codes and does not tell them apart.
    CHECK((code == hipErrorInvalidValue || (on_cuda && code == hipErrorInvalidDevice)));
  }
}

TEST_CASE("stream priorities: the range is told, either end alone too") {
  int least = -99;
  int greatest = 99;
  check_rules({
      {"neither", [] { return hipDeviceGetStreamPriorityRange(nullptr, nullptr); }, hipSuccess},
      {"the least", [&] { return hipDeviceGetStreamPriorityRange(&least, nullptr); }, hipSuccess},
      {"the greatest", [&] { return hipDeviceGetStreamPriorityRange(nullptr, &greatest); },
       hipSuccess},
  });
  CHECK(greatest <= least);
}
