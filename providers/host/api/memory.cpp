// SPDX-License-Identifier: MIT
#include "api/memory.hpp"

#include <algorithm>
#include <utility>

#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "graph/graph_memory.hpp"
#include "machine/call.hpp"
#include "memory/tracked_range.hpp"
#include "pool/mem_pool.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr unsigned host_flags = hipHostMallocPortable | hipHostMallocMapped |
                                hipHostMallocWriteCombined | hipHostMallocNumaUser |
                                hipHostMallocCoherent | hipHostMallocNonCoherent;

// Flags of hipExtMallocWithFlags: default, fine-grained, for signals, and in newer headers uncached
// and contiguous. Signals are 8 bytes, which the host and devices may use at the same time.
constexpr unsigned most_extended_flags = 4;
constexpr std::size_t signal_bytes = 8;

hipError_t allocate_host(runtime& machine, void** pointer, std::size_t bytes, unsigned flags) {
  require(pointer != nullptr);
  *pointer = nullptr;
  require((flags & ~host_flags) == 0);
  require((flags & hipHostMallocCoherent) == 0 || (flags & hipHostMallocNonCoherent) == 0);
  machine.captures().refuse_unsafe();
  if (bytes == 0) return hipSuccess;
  *pointer = pointer_to(
      machine.addresses().allocate(memory_kind::host_allocation, current_device(), bytes, flags));
  return hipSuccess;
}

hipError_t free_host(runtime& machine, void* pointer) {
  if (pointer == nullptr) return hipSuccess;
  const address start = address_of(pointer);
  const std::optional<tracked_range> found = machine.addresses().find(start);
  require(found && found->kind == memory_kind::host_allocation && found->start == start);
  machine.captures().refuse_unsafe();
  machine.wait_all();
  machine.end(*found);
  return hipSuccess;
}

hipPointerAttribute_t unregistered() noexcept {
  hipPointerAttribute_t answer{};
  hip_compat::memory_type(answer) = hip_compat::unregistered_memory_type;
  answer.device = hipInvalidDeviceId;
  return answer;
}

bool is_freed_by_hip_free(memory_kind kind) noexcept {
  return kind == memory_kind::device_allocation || kind == memory_kind::managed_allocation ||
         kind == memory_kind::pool_block || kind == memory_kind::graph_allocation;
}

}  // namespace

void* allocate_now(runtime& machine, std::size_t bytes) {
  machine.captures().refuse_unsafe();
  if (bytes == 0) return nullptr;
  const int id = current_device();
  auto memory = std::make_shared<chunk>(machine.device(id).memory, pinned_on(id), bytes);
  return pointer_to(
      machine.addresses().allocate_from(memory_kind::device_allocation, std::move(memory)));
}

void free_now(runtime& machine, address start) {
  const std::optional<tracked_range> found = machine.addresses().find(start);
  const bool takes_any = machine.rules().freed_address == inside_allocation::taken;
  require(found && (found->start == start || takes_any));
  require(is_freed_by_hip_free(found->kind) || is_signal(*found) ||
          (found->kind == memory_kind::imported_allocation &&
           machine.rules().pool_pointers == pointer_export::of_hip_malloc_too) ||
          (takes_any && found->kind == memory_kind::host_allocation));
  machine.captures().refuse_unsafe();
  if (found->kind == memory_kind::device_allocation) {
    machine.device(found->device).streams.wait_all();
  } else {
    machine.wait_all();
  }
  switch (found->kind) {
    case memory_kind::pool_block:
      return free_block(*found, nullptr);
    case memory_kind::graph_allocation:
      return free_graph_memory(*found);
    default:
      machine.end(*found);
  }
}

std::shared_ptr<stream_queue> stream_of_memory(runtime& machine, hipStream_t stream,
                                               hipError_t code) {
  try {
    return machine.stream(stream, code);
  } catch (const failure&) {
    if (machine.rules().stale_stream == bad_pointer::refused) throw;
    throw crash{"follows a stream that does not exist", "ROCm/clr 7.2.4"};
  }
}

}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMalloc(void** pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    machine.captures().refuse_unsafe();
    *pointer = nullptr;
    *pointer = allocate_now(machine, bytes);
    return hipSuccess;
  });
}

hipError_t hipExtMallocWithFlags(void** pointer, size_t bytes, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && flags <= most_extended_flags);
    const bool is_for_signals = flags == hipMallocSignalMemory;
    require(!is_for_signals || bytes == signal_bytes);
    machine.captures().refuse_unsafe();
    *pointer = nullptr;
    if (bytes == 0) return hipSuccess;
    const int id = current_device();
    if (is_for_signals) {
      *pointer = pointer_to(machine.addresses().allocate(memory_kind::host_allocation, id, bytes,
                                                         flags | signal_mark));
      return hipSuccess;
    }
    auto memory = std::make_shared<chunk>(machine.device(id).memory, pinned_on(id), bytes);
    *pointer = pointer_to(machine.addresses().allocate_from(memory_kind::device_allocation,
                                                            std::move(memory), flags));
    return hipSuccess;
  });
}

hipError_t hipFree(void* pointer) {
  return call(__func__, [&](runtime& machine) {
    if (pointer != nullptr) free_now(machine, address_of(pointer));
    return hipSuccess;
  });
}

hipError_t hipHostMalloc(void** pointer, size_t bytes, unsigned int flags) {
  return call(__func__,
              [&](runtime& machine) { return allocate_host(machine, pointer, bytes, flags); });
}

hipError_t hipHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return call(__func__,
              [&](runtime& machine) { return allocate_host(machine, pointer, bytes, flags); });
}

hipError_t hipMallocHost(void** pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return allocate_host(machine, pointer, bytes, hipHostMallocDefault);
  });
}

hipError_t hipMemAllocHost(void** pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return allocate_host(machine, pointer, bytes, hipHostMallocDefault);
  });
}

hipError_t hipHostFree(void* pointer) {
  return call(__func__, [&](runtime& machine) { return free_host(machine, pointer); });
}

hipError_t hipFreeHost(void* pointer) {
  return call(__func__, [&](runtime& machine) { return free_host(machine, pointer); });
}

hipError_t hipHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(device_pointer != nullptr && host_pointer != nullptr && flags == 0);
    const std::optional<tracked_range> found = machine.addresses().find(address_of(host_pointer));
    require(found && is_pinned(*found));
    *device_pointer = host_pointer;
    return hipSuccess;
  });
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call(__func__, [&](runtime& machine) {
    const device_memory& memory = machine.device(current_device()).memory;
    const std::size_t left = memory.budget() - memory.used();
    const std::size_t hidden = std::min(left, machine.configuration().hidden_bytes);
    if (free_bytes != nullptr) *free_bytes = left - hidden;
    if (total_bytes != nullptr) *total_bytes = machine.configuration().reported_bytes;
    return hipSuccess;
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(attributes != nullptr);
    if (pointer == nullptr) {
      require(machine.rules().null_attributes == hipSuccess, machine.rules().null_attributes);
      *attributes = unregistered();
      return hipSuccess;
    }
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    if (!found) {
      require(machine.rules().unregistered == hipSuccess, machine.rules().unregistered);
      *attributes = unregistered();
      return hipSuccess;
    }
    const bool managed = found->kind == memory_kind::managed_allocation;
    const bool on_host = managed || is_pinned(*found);
    hipPointerAttribute_t answer{};
    hipvmm::hip_compat::memory_type(answer) = managed   ? hipvmm::hip_compat::managed_memory_type
                                              : on_host ? hipMemoryTypeHost
                                                        : hipMemoryTypeDevice;
    answer.isManaged = managed ? 1 : 0;
    answer.device = found->device;
    answer.devicePointer = const_cast<void*>(pointer);
    answer.hostPointer = on_host ? const_cast<void*>(pointer) : nullptr;
    answer.allocationFlags = reported_flags_of(machine.rules(), *found);
    *attributes = answer;
    return hipSuccess;
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* bytes, hipDeviceptr_t pointer) {
  return call(__func__, [&](runtime& machine) {
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    require(found.has_value(), hipErrorNotFound);
    std::pair<address, std::size_t> range{found->start, found->bytes};
    if (found->kind == memory_kind::mapping && machine.rules().range == chunk_range::reservation) {
      range = machine.addresses().reservation_around(found->start);
    }
    if (base != nullptr) *base = pointer_to(range.first);
    if (bytes != nullptr) *bytes = range.second;
    return hipSuccess;
  });
}

hipError_t hipMemPtrGetInfo(void* pointer, size_t* bytes) {
  return call(__func__, [&](runtime& machine) {
    require(bytes != nullptr);
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    require(found.has_value());
    *bytes = found->bytes;
    return hipSuccess;
  });
}
