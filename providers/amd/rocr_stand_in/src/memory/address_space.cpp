// SPDX-License-Identifier: MIT
#include "src/memory/address_space.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/knobs.hpp"

namespace stand_in {

backing::~backing() {
  if (foreign) {
    munmap(at, bytes);
    close(file);
  } else if (exported) {
    owner->memory->retire(bytes);
  } else {
    owner->memory->free(offset, bytes);
  }
}

std::shared_ptr<backing> allocate_backing(agent& owner, std::uint64_t bytes) {
  const std::uint64_t whole = round_up(bytes, page_bytes);
  std::uint64_t offset = 0;
  const std::uint64_t alignment = whole >= large_page_bytes ? large_page_bytes : page_bytes;
  if (!owner.memory->allocate(whole, alignment, offset)) return nullptr;
  auto made = std::make_shared<backing>();
  made->owner = &owner;
  made->bytes = whole;
  made->offset = offset;
  made->at = owner.memory->base() + offset;
  made->file = owner.memory->file();
  return made;
}

std::shared_ptr<backing> import_backing(agent& owner, int file, std::uint64_t offset,
                                        std::uint64_t bytes) {
  const int own_file = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (own_file < 0) return nullptr;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                        own_file, static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    close(own_file);
    return nullptr;
  }
  auto made = std::make_shared<backing>();
  made->owner = &owner;
  made->bytes = bytes;
  made->offset = offset;
  made->at = static_cast<char*>(at);
  made->file = own_file;
  made->foreign = true;
  return made;
}

address_space& addresses() {
  static auto* made = new address_space;
  return *made;
}

reservation* reservation_of(std::uint64_t address, std::uint64_t bytes) {
  auto& all = addresses().reservations;
  const auto found = containing(all, address);
  if (found == all.end()) return nullptr;
  const std::uint64_t left = found->second.size - (address - found->first);
  return bytes <= left ? &found->second : nullptr;
}

memory_handle& add_handle(memory_handle made) {
  auto owned = std::make_unique<memory_handle>(std::move(made));
  memory_handle& added = *owned;
  addresses().handles.emplace(address_of(&added), std::move(owned));
  return added;
}

memory_handle* find_handle(hsa_amd_vmem_alloc_handle_t handle) {
  const auto& all = addresses().handles;
  const auto at = all.find(handle.handle);
  return at == all.end() ? nullptr : at->second.get();
}

void update_host_view(std::uint64_t address, const mapping& mapped) {
  int protection = PROT_NONE;
  for (const auto& [who, right] : mapped.rights) {
    if (who->is_gpu && !knobs().vmm_host_always) continue;
    if (right == HSA_ACCESS_PERMISSION_RO) protection |= PROT_READ;
    if (right == HSA_ACCESS_PERMISSION_WO) protection |= PROT_WRITE;
    if (right == HSA_ACCESS_PERMISSION_RW) protection |= PROT_READ | PROT_WRITE;
  }
  void* const at = pointer_to(address);
  if (protection == PROT_NONE) {
    mmap(at, mapped.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
  } else {
    mmap(at, mapped.size, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, mapped.memory->file,
         static_cast<off_t>(mapped.memory->offset));
  }
}

std::string describe_address(std::uint64_t address) {
  address_space& all = addresses();
  const auto range = [&](const char* what, const auto& entry) {
    return text("%s 0x%llx of %llu bytes (offset %llu)", what, wide(entry.first),
                wide(entry.second.size), wide(address - entry.first));
  };
  if (auto at = containing(all.mappings, address); at != all.mappings.end()) {
    std::string described = range("mapping", *at) + ", granted to";
    for (const auto& [who, right] : at->second.rights) {
      described += text(" node %u %s", who->node,
                        right == HSA_ACCESS_PERMISSION_RW   ? "read-write"
                        : right == HSA_ACCESS_PERMISSION_RO ? "read-only"
                        : right == HSA_ACCESS_PERMISSION_WO ? "write-only"
                                                            : "nothing");
    }
    return at->second.rights.empty() ? described + " nobody" : described;
  }
  if (auto at = containing(all.allocations, address); at != all.allocations.end()) {
    std::string described = range("allocation", *at) + ", accessible by";
    for (const agent* who : at->second.access) described += text(" node %u", who->node);
    return described;
  }
  if (auto at = containing(all.reservations, address); at != all.reservations.end()) {
    return range("unmapped part of reservation", *at);
  }
  if (auto at = containing(all.locked, address); at != all.locked.end()) {
    return range("locked host memory", *at);
  }
  return "no memory of any agent";
}

}  // namespace stand_in
