// SPDX-License-Identifier: MIT
// The header is C for any compiler and says nothing of visibility.
#pragma GCC visibility push(default)
#include <hipvmm/provider/host_control.h>
#pragma GCC visibility pop

#include <stdexcept>
#include <string>

#include "graph/graph.hpp"
#include "machine/call.hpp"
#include "memory/managed_pages.hpp"
#include "memory/tracked_range.hpp"
#include "pool/mem_pool_set.hpp"

using namespace hipvmm::host_provider;

namespace {

device_memory* memory_of(int device) {
  runtime& machine = runtime::get();
  return machine.has_device(device) ? &machine.device(device).memory : nullptr;
}

}  // namespace

void hipvmm_host_get_counters(hipvmm_host_counters* counters) {
  runtime& machine = runtime::get();
  const address_map::totals memory = machine.addresses().count();
  const mem_pool_set::totals pools = machine.pools().count();
  *counters = {machine.chunks().references(),
               memory.reservations,
               memory.mappings,
               memory.device_allocations + pools.blocks_held + machine.graphs().memory.held(),
               memory.host_allocations,
               machine.streams().size(),
               machine.events().size(),
               chunk::open_files() + pools.files,
               memory.managed_allocations,
               memory.imported_allocations,
               memory.registrations,
               pools.pools,
               machine.graphs().graphs.size(),
               machine.graphs().execs.size()};
}

size_t hipvmm_host_device_bytes(int device) {
  const device_memory* const memory = memory_of(device);
  return memory == nullptr ? 0 : memory->used();
}

size_t hipvmm_host_peak_device_bytes(int device) {
  const device_memory* const memory = memory_of(device);
  return memory == nullptr ? 0 : memory->peak();
}

void hipvmm_host_reset_peak_device_bytes(int device) {
  if (device_memory* const memory = memory_of(device)) memory->reset_peak();
}

int hipvmm_host_is_resident(const void* pointer, int device) {
  const address at = address_of(pointer);
  const std::optional<tracked_range> found = runtime::get().addresses().find(at);
  bool there = false;
  if (found && found->pages != nullptr) {
    found->pages->visit(at, 1,
                        [&](const page_state& page) { there = page.residence.contains(device); });
  }
  return there ? 1 : 0;
}

void hipvmm_host_fail_call(const char* function, uint64_t nth, int error) {
  fault_plan::get().fail_call(function, nth, static_cast<hipError_t>(error));
}

int hipvmm_host_fault_struck() { return fault_plan::get().struck() ? 1 : 0; }

const char* hipvmm_host_set_faults(const char* plan) {
  thread_local std::string complaint;
  runtime::get();  // which reads the environment's plan, so that this one replaces it
  try {
    fault_plan::get().replace(parse_faults(plan == nullptr ? "" : plan));
  } catch (const std::invalid_argument& error) {
    complaint = error.what();
    return complaint.c_str();
  } catch (const std::bad_alloc&) {
    return "there is no memory for the plan";
  }
  return nullptr;
}

void hipvmm_host_show_mappings() { runtime::get().addresses().show_mappings(); }

uint64_t hipvmm_host_stale_stream_calls() { return runtime::get().stale_stream_calls(); }

uint64_t hipvmm_host_granted_mappings() { return runtime::get().addresses().granted_mappings(); }

uint64_t hipvmm_host_call_count(const char* function) { return call_site::count(function); }

void hipvmm_host_hold_streams() { stream_queue::hold_all(); }

void hipvmm_host_release_streams() { stream_queue::release_all(); }
