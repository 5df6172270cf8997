// SPDX-License-Identifier: MIT
#include "src/memory/system_events.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace stand_in {
namespace {

struct handler_list {
  std::mutex lock;
  std::vector<std::pair<hsa_amd_system_event_callback_t, void*>> all;
};

handler_list& handlers() {
  static auto* made = new handler_list;
  return *made;
}

}  // namespace

void add_event_handler(hsa_amd_system_event_callback_t handler, void* data) {
  std::lock_guard guard(handlers().lock);
  handlers().all.emplace_back(handler, data);
}

bool offer_fault(const agent& who, std::uint64_t address, std::uint32_t reason) {
  hsa_amd_event_t fault{};
  fault.event_type = HSA_AMD_GPU_MEMORY_FAULT_EVENT;
  fault.memory_fault.agent = who.handle();
  fault.memory_fault.virtual_address = address;
  fault.memory_fault.fault_reason_mask = reason;
  std::unique_lock guard(handlers().lock);
  const auto all = handlers().all;
  guard.unlock();
  bool is_taken = false;
  for (const auto& [handler, data] : all)
    is_taken = handler(&fault, data) == HSA_STATUS_SUCCESS || is_taken;
  return is_taken;
}

}  // namespace stand_in
