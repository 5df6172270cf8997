// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <hipvmm/vmm/access.hpp>

// Rights and places in HIP's terms.
namespace hipvmm::detail {

inline hipMemAccessFlags to_flags(access_right right) {
  switch (right) {
    case access_right::none:
      return hipMemAccessFlagsProtNone;
    case access_right::read:
      return hipMemAccessFlagsProtRead;
    case access_right::read_write:
      break;
  }
  return hipMemAccessFlagsProtReadWrite;
}

inline access_right to_right(unsigned long long flags) {
  if (flags == hipMemAccessFlagsProtReadWrite) return access_right::read_write;
  return flags == hipMemAccessFlagsProtRead ? access_right::read : access_right::none;
}

inline hipMemLocation to_location(device_ref device) {
  hipMemLocation location{};
  location.type = hipMemLocationTypeDevice;
  location.id = device.ordinal();
  return location;
}

inline hipMemAccessDesc to_hip(access_desc desc) {
  hipMemAccessDesc result{};
  result.location = to_location(desc.device);
  result.flags = to_flags(desc.right);
  return result;
}

}  // namespace hipvmm::detail
