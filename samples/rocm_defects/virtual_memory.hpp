// SPDX-License-Identifier: MIT
// Short forms of HIP's virtual memory management, for the programs of this folder.
#pragma once

#include "defect.hpp"

inline hipMemAllocationProp properties_on(int device) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, device};
  return properties;
}

inline hipError_t grant(void* at, std::size_t bytes, int device) {
  hipMemAccessDesc right{};
  right.location = {hipMemLocationTypeDevice, device};
  right.flags = hipMemAccessFlagsProtReadWrite;
  return hipMemSetAccess(at, bytes, &right, 1);
}

// Unit of sizes; ends the program if the device has no virtual memory management.
inline std::size_t granularity(int device = 0) {
  const hipMemAllocationProp properties = properties_on(device);
  std::size_t bytes = 0;
  REQUIRE(
      hipMemGetAllocationGranularity(&bytes, &properties, hipMemAllocationGranularityRecommended));
  void* at = nullptr;
  // ROCm before 6.1 succeeds on Linux and gives no addresses.
  REQUIRE(hipMemAddressReserve(&at, bytes, 0, nullptr, 0));
  if (at == nullptr) finish(cannot_ask, "hipMemAddressReserve gave no addresses");
  REQUIRE(hipMemAddressFree(at, bytes));
  return bytes;
}

inline char* reserve(std::size_t bytes, void* hint = nullptr) {
  void* at = nullptr;
  REQUIRE(hipMemAddressReserve(&at, bytes, 0, hint, 0));
  return static_cast<char*>(at);
}

inline void map(void* at, std::size_t bytes, int device = 0) {
  const hipMemAllocationProp properties = properties_on(device);
  hipMemGenericAllocationHandle_t chunk{};
  REQUIRE(hipMemCreate(&chunk, bytes, &properties, 0));
  REQUIRE(hipMemMap(at, bytes, 0, chunk, 0));
}
