// SPDX-License-Identifier: MIT
// Allocations shared with other processes. A handle names process, file and range; the importer
// opens the file below /proc, as the same user.
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/history.hpp"
#include "src/base/knobs.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/pending_work.hpp"

namespace stand_in {
namespace {

struct shared_range {
  std::uint32_t magic;
  std::uint32_t process;
  std::uint32_t file;
  std::uint32_t node;
  std::uint64_t offset;
  std::uint32_t pages;
  std::uint32_t bytes_in_last;  // so that 8 words hold it all
};
static_assert(sizeof(shared_range) == sizeof(hsa_amd_ipc_memory_t));
constexpr std::uint32_t shared_magic = 0x53544e44;

int open_file(const shared_range& range) {
  return open(text("/proc/%u/fd/%u", range.process, range.file).c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_ipc_memory_create(void* ptr, size_t len, hsa_amd_ipc_memory_t* handle) {
  ROCR_CALL();
  if (ptr == nullptr || len == 0 || handle == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().allocations;
  const auto at = all.find(address_of(ptr));
  if (at == all.end() || at->second.imported || !at->second.from->owner->is_gpu) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  backing& memory = *at->second.memory;
  // ROCr: Runtime::IPCCreate takes the size itself or rounded up to pages; clr 5 more.
  if (len > memory.bytes) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const shared_range range{shared_magic,
                           static_cast<std::uint32_t>(getpid()),
                           static_cast<std::uint32_t>(memory.file),
                           memory.owner->node,
                           memory.offset,
                           static_cast<std::uint32_t>(memory.bytes / page_bytes),
                           0};
  memory.exported = true;
  std::memcpy(handle, &range, sizeof range);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* handle, size_t len,
                                       uint32_t num_agents, const hsa_agent_t* mapping_agents,
                                       void** mapped_ptr) {
  ROCR_CALL();
  if (handle == nullptr || len == 0 || mapped_ptr == nullptr) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  shared_range range{};
  std::memcpy(&range, handle, sizeof range);
  const std::uint64_t bytes = range.pages * page_bytes;
  if (range.magic != shared_magic || range.node == 0 || range.node > knobs().gpus || len > bytes) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  allocation made;
  for (std::uint32_t i = 0; i < num_agents; ++i) {
    agent* const each = agent_of(mapping_agents[i]);
    if (each == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
    made.access.insert(each);
  }
  if (num_agents == 0) {
    for (const auto& each : agents()) made.access.insert(each.get());
  }
  const int file = open_file(range);
  if (file < 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  agent& owner = gpu_agent(range.node - 1);
  made.memory = import_backing(owner, file, range.offset, bytes);
  close(file);
  if (made.memory == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  made.size = len;
  made.from = owner.pools.front().get();
  made.imported = true;
  *mapped_ptr = made.memory->at;
  std::lock_guard guard(addresses().lock);
  addresses().allocations.emplace(address_of(*mapped_ptr), std::move(made));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_detach(void* mapped_ptr) {
  ROCR_CALL();
  if (mapped_ptr == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  allocation ended;  // destroyed without the lock
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().allocations;
  const auto at = all.find(address_of(mapped_ptr));
  if (at == all.end() || !at->second.imported) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  check_unused("detach", "imported allocation", at->first, at->second.memory->bytes);
  remember_end("imported allocation", "detached", at->first, at->second.memory->bytes);
  ended = std::move(at->second);
  all.erase(at);
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
