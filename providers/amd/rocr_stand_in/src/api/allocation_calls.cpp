// SPDX-License-Identifier: MIT
// HSA's functions for memory of pools and for locked host memory.
#include <algorithm>
#include <mutex>
#include <vector>

#include <sys/mman.h>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/history.hpp"
#include "src/base/report.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/allocations.hpp"
#include "src/memory/device_view.hpp"
#include "src/memory/pending_work.hpp"

namespace stand_in {
namespace {

// ROCr: Runtime::VMemoryMapAllowAccess, from the mapping that holds the address over neighbours.
hsa_status_t allow_access_to_mappings(const std::vector<agent*>& who, std::uint64_t address) {
  auto& all = addresses().mappings;
  auto at = containing(all, address);
  if (at == all.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  for (std::uint64_t next = at->first; at != all.end() && at->first == next; ++at) {
    for (agent* each : who) at->second.rights[each] = HSA_ACCESS_PERMISSION_RW;
    update_host_view(at->first, at->second);
    next += at->second.size;
  }
  return HSA_STATUS_SUCCESS;
}

// The kernel driver pins each page: amdgpu_ttm_tt_get_user_pages() fails if one is not mapped.
bool is_mapped_on_host(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t begin = address / page_bytes * page_bytes;
  const std::uint64_t end = address + bytes;
  if (end < address || bytes > cpu_agent().memory->budget()) return false;
  // msync() writes back only memory with a file, and fails with ENOMEM over a hole.
  return ::msync(pointer_to(begin), end - begin, MS_ASYNC) == 0;
}

hsa_status_t lock_memory(void* host, std::size_t bytes, void** agent_pointer) {
  if (bytes == 0 || host == nullptr || agent_pointer == nullptr) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  *agent_pointer = nullptr;
  if (!is_mapped_on_host(address_of(host), bytes)) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  std::lock_guard guard(addresses().lock);
  locked_range& range = addresses().locked[address_of(host)];
  range.size = std::max<std::uint64_t>(range.size, bytes);
  range.references++;
  *agent_pointer = host;
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t memory_pool, size_t size, uint32_t,
                                          void** ptr) {
  ROCR_CALL();
  if (size == 0 || ptr == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  pool* const from = pool_of(memory_pool);
  if (from == nullptr || from->kind == pool_kind::group) {
    return static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  }
  const std::uint64_t address = allocate(*from, size);
  log("allocate %zu bytes on %s: 0x%llx", size, describe(*from->owner).c_str(), wide(address));
  if (address == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  *ptr = pointer_to(address);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  ROCR_CALL();
  if (ptr == nullptr) return HSA_STATUS_SUCCESS;
  log("free %p", ptr);
  return deallocate(address_of(ptr));
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t* agents,
                                         const uint32_t* flags, const void* ptr) {
  ROCR_CALL();
  if (num_agents == 0 || agents == nullptr || flags != nullptr || ptr == nullptr) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  std::vector<agent*> who;
  for (std::uint32_t i = 0; i < num_agents; ++i) {
    who.push_back(agent_of(agents[i]));
    if (who.back() == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  }
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().allocations;
  const auto at = all.find(address_of(ptr));
  if (at == all.end()) return allow_access_to_mappings(who, address_of(ptr));
  if (at->second.imported) return HSA_STATUS_SUCCESS;
  at->second.access = {at->second.from->owner};
  at->second.access.insert(who.begin(), who.end());
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_lock(void* host_ptr, size_t size, hsa_agent_t*, int, void** agent_ptr) {
  ROCR_CALL();
  return lock_memory(host_ptr, size, agent_ptr);
}

hsa_status_t hsa_amd_memory_lock_to_pool(void* host_ptr, size_t size, hsa_agent_t*, int,
                                         hsa_amd_memory_pool_t, uint32_t, void** agent_ptr) {
  ROCR_CALL();
  return lock_memory(host_ptr, size, agent_ptr);
}

hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  ROCR_CALL();
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().locked;
  const auto at = all.find(address_of(host_ptr));
  if (at == all.end()) return HSA_STATUS_SUCCESS;
  if (--at->second.references > 0) return HSA_STATUS_SUCCESS;
  // Locks are of whole pages. If a neighbour in the heap is locked too, its lock covers the page
  // that both share.
  std::uint64_t begin = at->first;
  std::uint64_t end = begin + at->second.size;
  for (const auto& [address, other] : all) {
    if (address == at->first) continue;
    const std::uint64_t other_end = address + other.size;
    if (address <= begin && other_end > begin) begin = std::min(other_end, end);
    if (address < end && other_end >= end) end = std::max(address, begin);
  }
  if (begin < end) check_unused("unlock", "locked host memory", begin, end - begin);
  remember_end("locked host memory", "unlocked", at->first, at->second.size);
  all.erase(at);
  return HSA_STATUS_SUCCESS;
}

// Hints of HSA's full profile; ROCr does nothing for a discrete GPU.
hsa_status_t hsa_memory_register(void* ptr, size_t size) {
  ROCR_CALL();
  return size == 0 && ptr != nullptr ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_memory_deregister(void*, size_t) {
  ROCR_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_memory_copy(void* dst, const void* src, size_t size) {
  ROCR_CALL();
  if (dst == nullptr || src == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const operation what{&cpu_agent(), "copy", "hsa_memory_copy", nullptr};
  device_view(what).copy(address_of(dst), address_of(src), size);
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
