// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <optional>

#include <hipvmm/vmm/access.hpp>

// Access rights and locations converted to HIP's types.
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

/// Sets all rights in `rights`, and none for `revoked`, over [address, address + bytes). Makes one
/// call of hipMemSetAccess, which names `owner` last.
void set_rights(void* address, std::size_t bytes, const access_map& rights, device_ref owner,
                std::optional<device_ref> revoked);

}  // namespace hipvmm::detail
