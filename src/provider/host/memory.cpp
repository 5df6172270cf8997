// SPDX-License-Identifier: MIT
#include "memory.hpp"

#include <utility>

#include "call.hpp"
#include "core/hip_compat.hpp"
#include "mem_pool.hpp"
#include "pointers.hpp"
#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr unsigned host_flags = hipHostMallocPortable | hipHostMallocMapped |
                                hipHostMallocWriteCombined | hipHostMallocNumaUser |
                                hipHostMallocCoherent | hipHostMallocNonCoherent;

}  // namespace

void free_now(runtime& machine, address start) {
  const std::optional<region> found = machine.addresses().find(start);
  require(found && found->start == start);
  switch (found->kind) {
    case memory_kind::pool_block:
      machine.wait_all();
      free_block(*found, nullptr);
      return;
    case memory_kind::managed_allocation:
      machine.wait_all();
      break;
    default:
      require(found->kind == memory_kind::device_allocation);
      machine.device(found->device).streams.wait_all();
  }
  machine.addresses().free_allocation(found->kind, start);
}

}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMalloc(void** pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    *pointer = nullptr;
    if (bytes == 0) return hipSuccess;
    const int id = current_device();
    auto memory = std::make_shared<chunk>(machine.device(id).memory, pinned_on(id), bytes);
    *pointer = pointer_to(
        machine.addresses().allocate_from(memory_kind::device_allocation, std::move(memory)));
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
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    *pointer = nullptr;
    require((flags & ~host_flags) == 0);
    require((flags & hipHostMallocCoherent) == 0 || (flags & hipHostMallocNonCoherent) == 0);
    if (bytes == 0) return hipSuccess;
    *pointer = pointer_to(
        machine.addresses().allocate(memory_kind::host_allocation, current_device(), bytes, flags));
    return hipSuccess;
  });
}

hipError_t hipHostFree(void* pointer) {
  return call(__func__, [&](runtime& machine) {
    if (pointer == nullptr) return hipSuccess;
    const address start = address_of(pointer);
    const std::optional<region> found = machine.addresses().find(start);
    require(found && found->kind == memory_kind::host_allocation && found->start == start);
    machine.wait_all();
    machine.addresses().free_allocation(memory_kind::host_allocation, start);
    return hipSuccess;
  });
}

hipError_t hipHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(device_pointer != nullptr && host_pointer != nullptr && flags == 0);
    const std::optional<region> found = machine.addresses().find(address_of(host_pointer));
    require(found && is_pinned(*found));
    *device_pointer = host_pointer;
    return hipSuccess;
  });
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call(__func__, [&](runtime& machine) {
    const device_memory& memory = machine.device(current_device()).memory;
    if (free_bytes != nullptr) *free_bytes = memory.budget() - memory.used();
    if (total_bytes != nullptr) *total_bytes = memory.budget();
    return hipSuccess;
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(attributes != nullptr && pointer != nullptr);
    const std::optional<region> found = machine.addresses().find(address_of(pointer));
    require(found.has_value());
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
    answer.allocationFlags = found->flags;
    *attributes = answer;
    return hipSuccess;
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* bytes, hipDeviceptr_t pointer) {
  return call(__func__, [&](runtime& machine) {
    const std::optional<region> found = machine.addresses().find(address_of(pointer));
    require(found.has_value(), hipErrorNotFound);
    if (base != nullptr) *base = pointer_to(found->start);
    if (bytes != nullptr) *bytes = found->bytes;
    return hipSuccess;
  });
}
