// SPDX-License-Identifier: MIT
#include <bit>

#include "call.hpp"
#include "enum_value.hpp"
#include "pointers.hpp"

namespace hipvmm::host_provider {
namespace {

bool is_device(const hipMemLocation& location) noexcept {
  return value_of(location.type) == hipMemLocationTypeDevice;
}

hipMemGenericAllocationHandle_t handle_of(std::uint64_t value) noexcept {
  return to_handle<hipMemGenericAllocationHandle_t>(value);
}

bool is_whole(std::size_t bytes, std::size_t granularity) noexcept {
  return bytes != 0 && bytes % granularity == 0;
}

// Rights that one descriptor gives; throws when it asks for something that does not exist.
access_change change_of(const hipMemAccessDesc& wanted, const runtime& machine) {
  require(is_device(wanted.location) && machine.has_device(wanted.location.id));
  const device_set device = only(wanted.location.id);
  switch (value_of(wanted.flags)) {
    case hipMemAccessFlagsProtNone:
      return {device, 0, 0};
    case hipMemAccessFlagsProtRead:
      return {device, device, 0};
    case hipMemAccessFlagsProtReadWrite:
      return {device, device, device};
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemGetAllocationGranularity(size_t* granularity, const hipMemAllocationProp* wanted,
                                          hipMemAllocationGranularity_flags option) {
  return call(__func__, [&](runtime& machine) {
    require(granularity != nullptr && wanted != nullptr);
    require(value_of(wanted->type) == hipMemAllocationTypePinned && is_device(wanted->location));
    require(machine.has_device(wanted->location.id));
    require(value_of(option) == hipMemAllocationGranularityMinimum ||
            value_of(option) == hipMemAllocationGranularityRecommended);
    *granularity = machine.configuration().granularity;
    return hipSuccess;
  });
}

hipError_t hipMemAddressReserve(void** pointer, size_t bytes, size_t alignment, void* hint,
                                unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && flags == 0);
    require(is_whole(bytes, machine.configuration().granularity));
    require(alignment == 0 || std::has_single_bit(alignment));
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
    require(value_of(wanted->type) == hipMemAllocationTypePinned && is_device(wanted->location));
    device_state& owner = machine.device(wanted->location.id);
    const int handle_type = value_of(wanted->requestedHandleType);
    require(
        handle_type == hipMemHandleTypeNone || handle_type == hipMemHandleTypePosixFileDescriptor,
        hipErrorNotSupported);
    require(is_whole(bytes, machine.configuration().granularity));
    *handle =
        handle_of(machine.chunks().add(std::make_shared<chunk>(owner.memory, *wanted, bytes)));
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
    const std::optional<region> found = machine.addresses().find(address_of(pointer));
    require(found && found->kind == memory_kind::mapping);
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
    const std::size_t granularity = machine.configuration().granularity;
    require(is_whole(bytes, granularity) && address_of(pointer) % granularity == 0);
    const std::shared_ptr<chunk> memory = machine.chunks().find(from_handle(handle));
    require(bytes <= memory->bytes());
    machine.addresses().map(address_of(pointer), bytes, memory);
    return hipSuccess;
  });
}

hipError_t hipMemUnmap(void* pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    machine.addresses().unmap(address_of(pointer), bytes);
    return hipSuccess;
  });
}

hipError_t hipMemSetAccess(void* pointer, size_t bytes, const hipMemAccessDesc* wanted,
                           size_t count) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0 && wanted != nullptr && count != 0);
    access_change all;
    for (size_t i = 0; i < count; ++i) {
      all.then(change_of(wanted[i], machine));
    }
    machine.addresses().set_access(address_of(pointer), bytes, all, machine.configuration().links);
    return hipSuccess;
  });
}

hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location,
                           void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr && location != nullptr && pointer != nullptr);
    require(is_device(*location) && machine.has_device(location->id));
    const std::optional<region> found = machine.addresses().find(address_of(pointer));
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
