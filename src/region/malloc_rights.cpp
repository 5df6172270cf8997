// SPDX-License-Identifier: MIT
#include "region/malloc_rights.hpp"

#include <algorithm>
#include <utility>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>

namespace hipvmm::detail {

void malloc_rights::grant(device_ref to, access_right right) {
  access_map next = rights_;
  next.set(to, right);
  change_to(std::move(next));
}

void malloc_rights::change_to(access_map next) {
  const auto& wanted = next.entries();
  if (next.get(owner()) == access_right::none ||
      std::ranges::find(wanted, access_right::read, &access_desc::right) != wanted.end())
    throw unsupported{
        "a right to memory of device " + std::to_string(owner().ordinal()) +
        ", which comes from hipMalloc: its own device may always read and write and others may "
        "both read and write or neither; ask for access_right::read_write, or leave the right as "
        "it is"};
  memory_users users = users_of(next);
  for (const access_desc& each : wanted)
    if (rights_.get(each.device) == access_right::none) each.device.enable_peer_access(owner());
  rights_ = std::move(next);
  users_ = std::move(users);
}

std::string why_no_chunks(device_ref owner, std::string_view chosen) {
  const capability found = capability_of(owner);
  return found.path() == memory_path::fallback ? found.why_fallback() : std::string{chosen};
}

void require_not_shareable(handle_type shareable, std::string_view option, device_ref owner,
                           const std::string& why) {
  if (shareable == handle_type::none) return;
  throw unsupported{std::string{option} + ": the memory of device " +
                    std::to_string(owner.ordinal()) +
                    " comes from hipMalloc and has no chunks to export, because " + why +
                    "; set it to handle_type::none and share copies"};
}

}  // namespace hipvmm::detail
