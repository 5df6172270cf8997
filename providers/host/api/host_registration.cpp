// SPDX-License-Identifier: MIT
#include "base/thread_state.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/process_memory.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {
namespace {

// Newer headers name two more: read-only (8), which AMD accepts and ignores, and uncached.
constexpr unsigned registration_flags =
    hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory | 0x8U | 0x80000000U;

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    require((flags & ~registration_flags) == 0);
    const address start = address_of(pointer);
    require(start + bytes > start);
    const protection given = protection_of(start, bytes);
    require(given.readable);
    machine.captures().refuse_unsafe();
    machine.addresses().register_host(start, bytes, current_device(), flags, given.writable);
    return hipSuccess;
  });
}

hipError_t hipHostUnregister(void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    const address start = address_of(pointer);
    const std::optional<tracked_range> found = machine.addresses().find(start);
    require(found && found->kind == memory_kind::registration && found->start == start,
            hipErrorHostMemoryNotRegistered);
    machine.captures().refuse_unsafe();
    machine.wait_all();
    machine.end(*found);
    return hipSuccess;
  });
}

hipError_t hipHostGetFlags(unsigned int* flags, void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr && pointer != nullptr);
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    require(found && is_pinned(*found));
    *flags = reported_flags_of(machine.rules(), *found);
    return hipSuccess;
  });
}
