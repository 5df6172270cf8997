// SPDX-License-Identifier: MIT

#include "base/thread_state.hpp"
#include "graph/capture.hpp"
#include "graph/graph_memory.hpp"
#include "machine/call.hpp"
#include "pool/mem_pool_set.hpp"

namespace hipvmm::host_provider {
namespace {

bool goes_with_device(const std::optional<memory_kind>& kind) noexcept {
  return kind == memory_kind::device_allocation || kind == memory_kind::imported_allocation ||
         kind == memory_kind::pool_block || kind == memory_kind::graph_allocation;
}

void free_waited_for(runtime& machine, const tracked_range& found) {
  switch (found.kind) {
    case memory_kind::pool_block:
      return free_block(found, nullptr);
    case memory_kind::graph_allocation:
      // Addresses that a graph keeps for its next launch stay its own.
      if (const auto memory = graph_memory::at(found); memory != nullptr && memory->is_held()) {
        free_graph_memory(found);
      }
      return;
    default:
      machine.end(found);
  }
}

void free_memory_of(runtime& machine, int device) {
  for (const address_map::live_range& each : machine.addresses().live_ranges()) {
    if (each.device != device || !goes_with_device(each.kind)) continue;
    const std::optional<tracked_range> found = machine.addresses().find(each.start);
    if (found && found->start == each.start) free_waited_for(machine, *found);
  }
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipDeviceReset() {
  return call(__func__, [](runtime& machine) {
    const int id = current_device();
    device_state& device = machine.device(id);
    machine.captures().refuse_wait_for_device(id);
    // Waits for all devices, because any may use its memory.
    machine.wait_all();
    const hipError_t unreported = device.streams.take_errors(true);
    const auto is_of_device = [id](const auto& each) { return each.device() == id; };
    static_cast<void>(machine.events().extract_if(is_of_device));
    for (const auto& leaving : machine.streams().extract_if(is_of_device)) leaving->close();
    free_memory_of(machine, id);
    machine.pools().reset(id);
    machine.peers().disable_all(id);
    device.preferences.reset();
    return unreported;
  });
}
