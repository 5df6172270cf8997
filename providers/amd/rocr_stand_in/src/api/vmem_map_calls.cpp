// SPDX-License-Identifier: MIT
// Mappings: ROCr's Runtime::VMemoryHandleMap and VMemoryHandleUnmap.
#include <mutex>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/history.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/pending_work.hpp"

namespace stand_in {
namespace {

bool overlaps_mapping(std::uint64_t address, std::uint64_t bytes) {
  auto& all = addresses().mappings;
  if (containing(all, address) != all.end()) return true;
  const auto next = all.lower_bound(address);
  return next != all.end() && address + bytes > next->first;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

// Nothing may use the mapping before hsa_amd_vmem_set_access().
hsa_status_t hsa_amd_vmem_map(void* va, size_t size, size_t,
                              hsa_amd_vmem_alloc_handle_t memory_handle, uint64_t) {
  ROCR_CALL();
  if (va == nullptr || size == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::uint64_t address = address_of(va);
  std::lock_guard guard(addresses().lock);
  reservation* const in = reservation_of(address, size);
  if (in == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (overlaps_mapping(address, size)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  stand_in::memory_handle* const of = find_handle(memory_handle);
  if (of == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  // The kernel driver maps no more than the buffer has.
  if (size > of->memory->bytes) return HSA_STATUS_ERROR;
  addresses().mappings[address] = {size, of, in, of->memory, {}};
  in->use_count++;
  of->use_count++;
  log("map %p, %zu bytes of handle 0x%llx", va, size, wide(memory_handle.handle));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_unmap(void* va, size_t size) {
  ROCR_CALL();
  if (va == nullptr || size == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  mapping ended;  // these are destroyed without the lock
  memory_handle released;
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().mappings;
  const auto at = all.find(address_of(va));
  if (at == all.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (at->second.size != size) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  check_unused("unmap", "mapping", at->first, size);
  remember_end("mapping", "unmapped", at->first, size);
  ended = std::move(at->second);
  all.erase(at);
  ended.rights.clear();
  update_host_view(address_of(va), ended);
  ended.in->use_count--;
  if (knobs().memory_stays) ended.in->kept.push_back(ended.memory);
  if (--ended.of->use_count == 0 && ended.of->ref_count == 0) {
    released = std::move(*ended.of);
    addresses().handles.erase(address_of(ended.of));
  }
  log("unmap %p, %zu bytes", va, size);
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
