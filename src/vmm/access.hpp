// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

#include <hipvmm/vmm/access.hpp>

namespace hipvmm::detail {

inline hipMemAccessFlags to_flags(access_right right) {
  if (right == access_right::read_write) return hipMemAccessFlagsProtReadWrite;
  return right == access_right::read ? hipMemAccessFlagsProtRead : hipMemAccessFlagsProtNone;
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

/// Throws: unsupported, naming devices and link, unless `device` reaches memory of `owner`.
void require_reach(device_ref device, device_ref owner);

/// Sets `rights` over whole mappings of memory of `owner`, and none for devices that only `before`
/// names. At most one hipMemSetAccess.
void set_rights(void* address, std::size_t bytes, const access_map& rights, device_ref owner,
                const access_map* before = nullptr);

template <typename Visit>
void for_each_change(const access_map& before, const access_map& after, Visit visit) {
  for (const access_desc& entry : before.entries())
    if (after.get(entry.device) == access_right::none) visit(entry.device, access_right::none);
  for (const access_desc& entry : after.entries())
    if (before.get(entry.device) != entry.right) visit(entry.device, entry.right);
}

}  // namespace hipvmm::detail
