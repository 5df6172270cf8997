// SPDX-License-Identifier: MIT
// Physical memory: ROCr's Runtime::VMemoryHandleCreate, VMemoryHandleRelease and
// VMemoryRetainAllocHandle.
#include <mutex>
#include <shared_mutex>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/memory/address_space.hpp"

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size,
                                        hsa_amd_memory_type_t type, uint64_t,
                                        hsa_amd_vmem_alloc_handle_t* memory_handle) {
  ROCR_CALL();
  if (size == 0 || memory_handle == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (type != MEMORY_TYPE_NONE && type != MEMORY_TYPE_PINNED) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  stand_in::pool* const from = pool_of(pool);
  if (from == nullptr || from->kind == pool_kind::group || size % page_bytes != 0) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  if (!from->owner->is_gpu && !knobs().host_handles) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  stand_in::memory_handle made;
  made.memory = allocate_backing(*from->owner, size);
  if (made.memory == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  made.type = type;
  made.from = from;
  std::lock_guard guard(addresses().lock);
  memory_handle->handle = address_of(&add_handle(std::move(made)));
  log("handle 0x%llx of %zu bytes on %s", wide(memory_handle->handle), size,
      describe(*from->owner).c_str());
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t memory_handle) {
  ROCR_CALL();
  stand_in::memory_handle ended;  // destroyed without the lock
  std::lock_guard guard(addresses().lock);
  stand_in::memory_handle* const found = find_handle(memory_handle);
  if (found == nullptr || found->ref_count == 0) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (--found->ref_count > 0 || found->use_count > 0) return HSA_STATUS_SUCCESS;
  log("release handle 0x%llx", wide(memory_handle.handle));
  ended = std::move(*found);
  addresses().handles.erase(memory_handle.handle);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t* memory_handle,
                                              void* addr) {
  ROCR_CALL();
  if (addr == nullptr || memory_handle == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().mappings;
  const auto at = all.find(address_of(addr));
  if (at == all.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  at->second.of->ref_count++;
  memory_handle->handle = address_of(at->second.of);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_get_alloc_properties_from_handle(
    hsa_amd_vmem_alloc_handle_t memory_handle, hsa_amd_memory_pool_t* pool,
    hsa_amd_memory_type_t* type) {
  ROCR_CALL();
  if (pool == nullptr || type == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::shared_lock guard(addresses().lock);
  const stand_in::memory_handle* const found = find_handle(memory_handle);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  *pool = found->from->handle();
  *type = found->type;
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
