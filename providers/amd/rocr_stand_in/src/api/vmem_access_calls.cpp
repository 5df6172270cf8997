// SPDX-License-Identifier: MIT
// Rights: ROCr's Runtime::VMemorySetAccess and VMemoryGetAccess.
#include <mutex>
#include <vector>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/history.hpp"
#include "src/base/knobs.hpp"
#include "src/memory/address_space.hpp"

namespace stand_in {
namespace {

// The mappings that make up the range. False if there is a hole.
bool mappings_of(std::uint64_t address, std::uint64_t bytes,
                 std::vector<std::pair<std::uint64_t, mapping*>>& into) {
  auto& all = addresses().mappings;
  for (std::uint64_t next = address; next < address + bytes;) {
    const auto at = all.find(next);
    if (at == all.end()) return false;
    into.emplace_back(next, &at->second);
    next += at->second.size;
  }
  return true;
}

// As in ROCr, the rights before a refused one stay.
hsa_status_t set_rights(std::uint64_t address, mapping& mapped,
                        const hsa_amd_memory_access_desc_t* rights, std::size_t count) {
  hsa_status_t status = HSA_STATUS_SUCCESS;
  for (std::size_t i = 0; i < count && status == HSA_STATUS_SUCCESS; ++i) {
    agent& who = *agent_of(rights[i].agent_handle);
    const agent& owner = *mapped.memory->owner;
    if (who.is_gpu && owner.is_gpu && !knobs().linked(who.index, owner.index)) {
      status = HSA_STATUS_ERROR;
    } else {
      mapped.rights[&who] = rights[i].permissions;
    }
  }
  update_host_view(address, mapped);
  return status;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_vmem_set_access(void* va, size_t size,
                                     const hsa_amd_memory_access_desc_t* desc, size_t desc_cnt) {
  ROCR_CALL();
  if (va == nullptr || size == 0 || desc == nullptr || desc_cnt == 0) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  for (std::size_t i = 0; i < desc_cnt; ++i) {
    if (agent_of(desc[i].agent_handle) == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  }
  const std::uint64_t address = address_of(va);
  std::lock_guard guard(addresses().lock);
  if (reservation_of(address, size) == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::vector<std::pair<std::uint64_t, mapping*>> mapped;
  if (!mappings_of(address, size, mapped)) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  for (const auto& [start, each] : mapped) {
    const hsa_status_t status = set_rights(start, *each, desc, desc_cnt);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_get_access(void* va, hsa_access_permission_t* perms,
                                     hsa_agent_t agent_handle) {
  ROCR_CALL();
  if (va == nullptr || perms == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *perms = HSA_ACCESS_PERMISSION_NONE;
  std::shared_lock guard(addresses().lock);
  auto& all = addresses().mappings;
  auto at = all.upper_bound(address_of(va));
  if (at == all.begin()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  --at;
  // ROCr takes the first byte behind a mapping for a part of it.
  if (address_of(va) > at->first + at->second.size) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  agent* const who = agent_of(agent_handle);
  if (who == nullptr || !who->is_gpu) return HSA_STATUS_ERROR_INVALID_AGENT;
  const auto right = at->second.rights.find(who);
  if (right != at->second.rights.end()) *perms = right->second;
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
