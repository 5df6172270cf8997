// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <bit>
#include <new>

#include "base/enum_value.hpp"
#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "machine/call.hpp"
#include "machine/touch_report.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {
namespace {

bool is_device(const hipMemLocation& location) noexcept {
  return value_of(location.type) == hipMemLocationTypeDevice;
}

bool is_host(const hipMemLocation& location, const profile& rules) noexcept {
  const int type = value_of(location.type);
  if (type == hipvmm::hip_compat::host_node_location)
    return location.id >= 0 && location.id < rules.host_nodes;
  return type == hipvmm::hip_compat::host_location && rules.host_chunks != host_place::refused;
}

hipMemGenericAllocationHandle_t handle_of(std::uint64_t value) noexcept {
  return to_handle<hipMemGenericAllocationHandle_t>(value);
}

bool is_whole(std::size_t bytes, std::size_t granularity) noexcept {
  return bytes != 0 && bytes % granularity == 0;
}

bool is_type(const hipMemAllocationProp& wanted, const profile& rules) noexcept {
  const int type = value_of(wanted.type);
  return type == hipMemAllocationTypePinned ||
         (type == hipvmm::hip_compat::uncached_allocation && rules.uncached == extra_type::taken);
}

device_memory& place_of(runtime& machine, const hipMemAllocationProp& wanted) {
  const profile& rules = machine.rules();
  if (is_host(wanted.location, rules)) {
    // CUDA: requestedHandleTypes must be 0 for memory of the host.
    require(rules.host_chunks == host_place::any_memory ||
            value_of(wanted.requestedHandleType) == hipMemHandleTypeNone);
    return machine.host_memory();
  }
  require(is_device(wanted.location));
  auto& named = machine.device(wanted.location.id, rules.bad_create_device);
  return rules.created_on == creation_device::named ? named.memory
                                                    : machine.device(current_device()).memory;
}

// Throws if the descriptor names something that does not exist.
access_change change_of(const hipMemAccessDesc& wanted, const runtime& machine) {
  const profile& rules = machine.rules();
  const int flags = value_of(wanted.flags);
  const bool reads = flags == hipMemAccessFlagsProtRead || flags == hipMemAccessFlagsProtReadWrite;
  const bool writes = flags == hipMemAccessFlagsProtReadWrite;
  require(reads || flags == hipMemAccessFlagsProtNone);
  if (is_host(wanted.location, rules)) {
    access_change change;
    change.host = (reads ? PROT_READ : PROT_NONE) | (writes ? PROT_WRITE : PROT_NONE);
    return change;
  }
  require(is_device(wanted.location) || rules.access_checks == entry_check::id_only);
  require(machine.has_device(wanted.location.id));
  const device_set device = only(wanted.location.id);
  return {device, reads ? device : 0, writes ? device : 0};
}

void set_access(runtime& machine, address start, std::size_t bytes, const access_change& change) {
  bytes = machine.addresses().set_access(start, bytes, change, machine.configuration().links);
  if (race_checker* const checker = machine.checker()) checker->revoke(start, bytes, change);
}

void wait_for(runtime& machine, waiting what, int owner) {
  switch (what) {
    case waiting::none:
      return;
    case waiting::null_stream: {
      const stream_set& streams = machine.device(owner).streams;
      const host_wait noted{machine.checker(), *streams.null()};
      for (const position& each : streams.ends(false)) each.wait();
      noted.is_over();
      return;
    }
    case waiting::all_streams:
      machine.wait_all();
  }
}

void map(runtime& machine, address start, std::size_t bytes, const std::shared_ptr<chunk>& memory) {
  if (machine.rules().part == mapped_part::whole_chunk) {
    require(bytes == memory->bytes(), hipErrorNotSupported);
  }
  const std::size_t granularity = machine.configuration().granularity;
  require(is_whole(bytes, granularity) && start % granularity == 0);
  require(bytes <= memory->bytes());
  machine.addresses().map(start, bytes, memory);
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemGetAllocationGranularity(size_t* granularity, const hipMemAllocationProp* wanted,
                                          hipMemAllocationGranularity_flags option) {
  return call(__func__, [&](runtime& machine) {
    require(granularity != nullptr && wanted != nullptr);
    require(is_type(*wanted, machine.rules()));
    const bool is_on_device =
        is_device(wanted->location) && machine.has_device(wanted->location.id);
    require(is_on_device || is_host(wanted->location, machine.rules()));
    require(value_of(option) == hipMemAllocationGranularityMinimum ||
            value_of(option) == hipMemAllocationGranularityRecommended);
    if (machine.rules().vmm == virtual_memory::absent) {
      *granularity = 0;
      return hipSuccess;
    }
    *granularity = value_of(option) == hipMemAllocationGranularityMinimum
                       ? machine.configuration().granularity
                       : machine.configuration().recommended_granularity;
    return hipSuccess;
  });
}

hipError_t hipMemAddressReserve(void** pointer, size_t bytes, size_t alignment, void* hint,
                                unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && flags == 0);
    if (machine.rules().vmm == virtual_memory::absent) {
      require(hint == nullptr, hipErrorOutOfMemory);
      *pointer = nullptr;
      return hipSuccess;
    }
    const bool is_good = is_whole(bytes, machine.configuration().granularity) &&
                         (alignment == 0 || std::has_single_bit(alignment));
    require(is_good, machine.rules().bad_reserve);
    *pointer = pointer_to(machine.addresses().reserve(bytes, alignment, address_of(hint)));
    return hipSuccess;
  });
}

hipError_t hipMemAddressFree(void* pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    machine.addresses().free_reservation(address_of(pointer), bytes);
    return hipSuccess;
  });
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, size_t bytes,
                        const hipMemAllocationProp* wanted, unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr && wanted != nullptr && flags == 0);
    require(is_type(*wanted, machine.rules()));
    device_memory& place = place_of(machine, *wanted);
    const bool is_named = machine.rules().created_on == creation_device::named;
    const int device = is_named ? wanted->location.id : current_device();
    int kinds = hipvmm::hip_compat::handle_kinds(*wanted);
    if (machine.configuration().fabric_handles) kinds &= ~hipvmm::hip_compat::fabric_handle_kind;
    if (kinds == hipMemHandleTypePosixFileDescriptor) {
      require(machine.rules().sharing == hipSuccess, machine.rules().sharing);
    } else {
      require(kinds == hipMemHandleTypeNone, hipErrorNotSupported);
    }
    const std::size_t unit = machine.rules().chunk_unit;
    require(is_whole(bytes, unit != 0 ? unit : machine.configuration().granularity));
    *handle =
        handle_of(machine.chunks().add(std::make_shared<chunk>(place, *wanted, device, bytes)));
    return hipSuccess;
  });
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  return call(__func__, [&](runtime& machine) {
    machine.chunks().release(from_handle(handle));
    return hipSuccess;
  });
}

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t* handle, void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr && pointer != nullptr);
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    const bool is_mapping = found && found->kind == memory_kind::mapping;
    if (found && !is_mapping && machine.rules().not_a_mapping == bad_pointer::followed) {
      throw crash{"reads a null pointer for memory that hipMemMap did not place",
                  "ROCm/clr to 6.4, and 7.2.4, hip_vm.cpp"};
    }
    if (found && !is_mapping && machine.rules().not_a_mapping == bad_pointer::accepted) {
      *handle = handle_of(address_of(pointer));  // of nothing
      return hipSuccess;
    }
    require(is_mapping);
    machine.chunks().retain(found->memory);
    *handle = handle_of(found->memory->handle());
    return hipSuccess;
  });
}

hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp* properties,
                                                   hipMemGenericAllocationHandle_t handle) {
  return call(__func__, [&](runtime& machine) {
    require(properties != nullptr);
    *properties = machine.chunks().find(from_handle(handle))->properties();
    return hipSuccess;
  });
}

hipError_t hipMemMap(void* pointer, size_t bytes, size_t offset,
                     hipMemGenericAllocationHandle_t handle, unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && offset == 0 && flags == 0);
    require(bytes != 0);
    if (machine.configuration().touch == host_touch::if_granted) report_touches();
    const std::shared_ptr<chunk> memory = machine.chunks().find(from_handle(handle));
    wait_for(machine, machine.rules().map_waits, memory->device());
    if (machine.rules().bad_map == failed_map::returned) {
      map(machine, address_of(pointer), bytes, memory);
      return hipSuccess;
    }
    try {
      map(machine, address_of(pointer), bytes, memory);
    } catch (const failure&) {
    } catch (const std::bad_alloc&) {
    }
    return hipSuccess;
  });
}

hipError_t hipMemUnmap(void* pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    if (machine.rules().vmm == virtual_memory::absent) return hipSuccess;
    require(bytes != 0);
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    const bool may_be_hole = machine.rules().unmap == unmap_rule::mapped_ones;
    if (found || may_be_hole) {
      wait_for(machine, machine.rules().unmap_waits, found ? found->device : current_device());
    }
    const address start = address_of(pointer);
    const std::size_t gone = machine.addresses().unmap(start, bytes);
    if (race_checker* const checker = machine.checker()) checker->end(start, gone);
    return hipSuccess;
  });
}

hipError_t hipMemSetAccess(void* pointer, size_t bytes, const hipMemAccessDesc* wanted,
                           size_t count) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0 && wanted != nullptr && count != 0);
    const bool one_by_one = machine.rules().access_entries == access_order::one_by_one;
    // The entries are not checked.
    if (machine.rules().vmm == virtual_memory::absent) return hipSuccess;
    access_change all;
    for (size_t i = 0; i < count; ++i) {
      const access_change each = change_of(wanted[i], machine);
      if (one_by_one) set_access(machine, address_of(pointer), bytes, each);
      all.then(each);
    }
    if (!one_by_one) set_access(machine, address_of(pointer), bytes, all);
    return hipSuccess;
  });
}

hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location,
                           void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr && location != nullptr && pointer != nullptr);
    // *flags stays unchanged.
    if (machine.rules().vmm == virtual_memory::absent) return hipSuccess;
    require(is_device(*location) && machine.has_device(location->id));
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    require(found && found->kind == memory_kind::mapping);
    const device_set device = only(location->id);
    *flags = hipMemAccessFlagsProtNone;
    if ((found->readers & device) != 0) *flags = hipMemAccessFlagsProtRead;
    if ((found->writers & device) != 0) *flags = hipMemAccessFlagsProtReadWrite;
    return hipSuccess;
  });
}

hipError_t hipMemMapArrayAsync(hipArrayMapInfo* maps, unsigned int count, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    require(maps != nullptr && count != 0);
    machine.stream(stream);
    return hipErrorNotSupported;
  });
}
