// SPDX-License-Identifier: MIT
#include "src/memory/allocations.hpp"

#include <mutex>

#include "src/base/history.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/pending_work.hpp"

namespace stand_in {

std::uint64_t allocate(pool& from, std::uint64_t bytes) {
  allocation made;
  made.size = bytes;
  made.from = &from;
  made.memory = allocate_backing(*from.owner, bytes);
  if (made.memory == nullptr) return 0;
  made.access.insert(from.owner);
  const std::uint64_t address = address_of(made.memory->at);
  std::lock_guard guard(addresses().lock);
  addresses().allocations.emplace(address, std::move(made));
  return address;
}

hsa_status_t deallocate(std::uint64_t address) {
  allocation ended;  // destroyed without the lock
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().allocations;
  const auto at = all.find(address);
  if (at == all.end() || at->second.imported) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  check_unused("free", "allocation", address, at->second.memory->bytes);
  remember_end("allocation", "freed", address, at->second.memory->bytes);
  ended = std::move(at->second);
  all.erase(at);
  return HSA_STATUS_SUCCESS;
}

}  // namespace stand_in
