// SPDX-License-Identifier: MIT
// The description of memory pools, and of the agents that may reach them.
#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/info.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"
#include "src/memory/agents.hpp"

namespace stand_in {
namespace {

std::uint32_t flags_of(pool_kind kind) {
  switch (kind) {
    case pool_kind::fine:
      return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    case pool_kind::kernarg:
      return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED |
             HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
    case pool_kind::coarse:
      return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    case pool_kind::extended:
      return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED;
    case pool_kind::group:
      break;
  }
  return 0;
}

constexpr std::size_t group_bytes = 65536;

bool linked(const agent& one, const agent& other) {
  return !one.is_gpu || !other.is_gpu || knobs().linked(one.index, other.index);
}

hsa_amd_memory_pool_access_t access_of(const agent& who, const pool& to) {
  if (to.owner == &who) return HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
  return to.kind == pool_kind::group || !linked(who, *to.owner)
             ? HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED
             : HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;
}

hsa_amd_memory_pool_link_info_t link_between(const agent& one, const agent& other) {
  const bool between_gpus = one.is_gpu && other.is_gpu;
  const bool hive = between_gpus && linked(one, other);
  hsa_amd_memory_pool_link_info_t link{};
  link.atomic_support_32bit = true;
  link.atomic_support_64bit = true;
  link.coherent_support = true;
  link.link_type = hive ? HSA_AMD_LINK_INFO_TYPE_XGMI : HSA_AMD_LINK_INFO_TYPE_PCIE;
  // Thunk, topology_create_indirect_gpu_links(): over both links to the host, if there is no other.
  link.numa_distance = hive ? 15 : between_gpus ? 40 : 20;
  link.min_bandwidth = link.max_bandwidth = 50000;
  return link;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_agent_iterate_memory_pools(
    hsa_agent_t agent, hsa_status_t (*callback)(hsa_amd_memory_pool_t, void*), void* data) {
  ROCR_CALL();
  const stand_in::agent* const who = agent_of(agent);
  if (who == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  for (const auto& each : who->pools) {
    const hsa_status_t status = callback(each->handle(), data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t memory_pool,
                                          hsa_amd_memory_pool_info_t attribute, void* value) {
  ROCR_CALL();
  if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const pool* const of = pool_of(memory_pool);
  if (of == nullptr) return static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  const bool group = of->kind == pool_kind::group;
  const std::size_t bytes = group ? group_bytes : of->owner->memory->budget();
  switch (static_cast<int>(attribute)) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
      return answer(value, group ? HSA_AMD_SEGMENT_GROUP : HSA_AMD_SEGMENT_GLOBAL);
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
      return answer(value, flags_of(of->kind));
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
      return answer(value, bytes);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
      return answer(value, !group);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
      return answer(value, std::size_t{page_bytes});
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE:
      return answer(value, std::size_t{large_page_bytes});
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
      return answer(value, !of->owner->is_gpu);
    case HSA_AMD_MEMORY_POOL_INFO_LOCATION:
      return answer(value, of->owner->is_gpu ? HSA_AMD_MEMORY_POOL_LOCATION_GPU
                                             : HSA_AMD_MEMORY_POOL_LOCATION_CPU);
    default:
      log("hsa_amd_memory_pool_get_info(%d) is not known", static_cast<int>(attribute));
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent,
                                                hsa_amd_memory_pool_t memory_pool,
                                                hsa_amd_agent_memory_pool_info_t attribute,
                                                void* value) {
  ROCR_CALL();
  if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const stand_in::agent* const who = agent_of(agent);
  if (who == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  const pool* const to = pool_of(memory_pool);
  if (to == nullptr) return static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  switch (static_cast<int>(attribute)) {
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS:
      return answer(value, access_of(*who, *to));
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
      return answer(value, std::uint32_t{to->owner == who ? 0u : 1u});
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO:
      if (to->owner == who) return HSA_STATUS_SUCCESS;
      return answer(value, link_between(*who, *to->owner));
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

}  // extern "C"
