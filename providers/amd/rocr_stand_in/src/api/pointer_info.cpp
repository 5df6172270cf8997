// SPDX-License-Identifier: MIT
// The kind and owner of an address: hsa_amd_pointer_info().
#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/memory/address_space.hpp"

namespace stand_in {
namespace {

std::uint32_t global_flags(const pool& from) {
  if (from.kind == pool_kind::coarse) return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
  std::uint32_t flags = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
  if (from.kind == pool_kind::kernarg) flags |= HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
  return flags;
}

void set_range(hsa_amd_pointer_info_t& into, std::uint64_t address, std::uint64_t bytes,
               const agent& owner) {
  into.agentBaseAddress = into.hostBaseAddress = pointer_to(address);
  into.sizeInBytes = bytes;
  into.agentOwner = owner.handle();
#if HSA_AMD_INTERFACE_VERSION_MINOR > 7
  into.registered = true;
#endif
}

// `who` gets the agents that may use the memory. Pre: the lock is held.
void look_up(std::uint64_t address, hsa_amd_pointer_info_t& into, std::vector<hsa_agent_t>& who) {
  address_space& all = addresses();
  into.type = HSA_EXT_POINTER_TYPE_UNKNOWN;
  if (auto at = containing(all.allocations, address); at != all.allocations.end()) {
    const allocation& found = at->second;
    into.type = found.imported ? HSA_EXT_POINTER_TYPE_IPC : HSA_EXT_POINTER_TYPE_HSA;
    set_range(into, at->first, found.size, *found.from->owner);
    into.userData = found.user_data;
    into.global_flags = global_flags(*found.from);
    for (const agent* each : found.access) who.push_back(each->handle());
  } else if (auto lock = containing(all.locked, address); lock != all.locked.end()) {
    into.type = HSA_EXT_POINTER_TYPE_LOCKED;
    set_range(into, lock->first, lock->second.size, cpu_agent());
    into.global_flags = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    for (const agent* each : visible_agents()) who.push_back(each->handle());
  } else if (auto in = containing(all.reservations, address); in != all.reservations.end()) {
    into.type = HSA_EXT_POINTER_TYPE_RESERVED_ADDR;
    set_range(into, in->first, in->second.size, cpu_agent());
    into.hostBaseAddress = nullptr;
#if HSA_AMD_INTERFACE_VERSION_MINOR > 7
    into.registered = !in->second.unregistered;
#endif
  }
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_pointer_info(const void* ptr, hsa_amd_pointer_info_t* info,
                                  void* (*alloc)(size_t), uint32_t* num_agents_accessible,
                                  hsa_agent_t** accessible) {
  ROCR_CALL();
  if (ptr == nullptr || info == nullptr || info->size == 0) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  hsa_amd_pointer_info_t found{};
  std::vector<hsa_agent_t> who;
  {
    std::shared_lock guard(addresses().lock);
    look_up(address_of(ptr), found, who);
  }
  found.size = std::min<std::uint32_t>(info->size, sizeof found);
  std::memcpy(info, &found, found.size);
  if (alloc == nullptr || num_agents_accessible == nullptr || accessible == nullptr) {
    return HSA_STATUS_SUCCESS;
  }
  *num_agents_accessible = static_cast<std::uint32_t>(who.size());
  *accessible = static_cast<hsa_agent_t*>(alloc(sizeof(hsa_agent_t) * who.size()));
  if (*accessible == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  std::copy(who.begin(), who.end(), *accessible);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void* ptr, void* userdata) {
  ROCR_CALL();
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().allocations;
  const auto at = all.find(address_of(ptr));
  if (at == all.end()) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  at->second.user_data = userdata;
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
