// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstring>

#include "base/enum_value.hpp"
#include "machine/call.hpp"
#include "memory/tracked_range.hpp"

// The header of 5.2 lacks it, later ones declare the same.
extern "C" [[gnu::visibility("default")]] hipError_t hipPointerSetAttribute(
    const void* value, hipPointer_attribute attribute, hipDeviceptr_t pointer);

namespace hipvmm::host_provider {
namespace {

template <class Value>
hipError_t answer(void* data, const Value& value) noexcept {
  std::memcpy(data, &value, sizeof(value));
  return hipSuccess;
}

bool is_at_home_on_host(const tracked_range& found) noexcept {
  return found.kind == memory_kind::managed_allocation || is_pinned(found);
}

void answer_with_nothing(const runtime& machine, void* data, int attribute) noexcept {
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      std::memset(data, 0, sizeof(std::uint32_t));
      break;
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      std::memset(data, 0, sizeof(void*));
      break;
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
    case HIP_POINTER_ATTRIBUTE_MAPPED:
      std::memset(data, 0, sizeof(bool));
      break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      static_cast<void>(answer(data, hipInvalidDeviceId));
      break;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      std::memset(data, 0,
                  machine.rules().range_size == reported_size::four_bytes ? sizeof(std::uint32_t)
                                                                          : sizeof(std::size_t));
      break;
    default:
      break;
  }
}

hipError_t answer_of(runtime& machine, void* data, int attribute, const tracked_range& found,
                     void* pointer) {
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer(data, is_at_home_on_host(found) ? hipMemoryTypeHost : hipMemoryTypeDevice);
    case HIP_POINTER_ATTRIBUTE_CONTEXT: {
      // AMD reports the device's context; programs can only compare it.
      require(found.kind == memory_kind::device_allocation);
      const void* const context = &machine.device(found.device);
      return answer(data, context);
    }
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer(data, pointer);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER: {
      const bool has_one = is_at_home_on_host(found);
      void* const none = nullptr;
      const hipError_t code = answer(data, has_one ? pointer : none);
      return has_one ? code : hipErrorInvalidValue;
    }
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return answer(data, found.synchronous);
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      return answer(data, found.number);
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      return answer(data, found.kind == memory_kind::managed_allocation);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer(data, found.device);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer(data, pointer_to(found.start));
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      if (machine.rules().range_size == reported_size::four_bytes) {
        return answer(data, static_cast<std::uint32_t>(found.bytes));
      }
      return answer(data, found.bytes);
    case HIP_POINTER_ATTRIBUTE_MAPPED:
      return answer(data, true);
    default:
      throw failure{hipErrorInvalidValue};
  }
}

hipError_t answer_at(runtime& machine, void* data, int attribute, void* pointer) {
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
      require(machine.rules().context == context_pointer::of_hip_malloc, hipErrorNotSupported);
      break;
    case HIP_POINTER_ATTRIBUTE_P2P_TOKENS:
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return hipErrorNotSupported;
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return answer(data, 0);
    default:
      break;
  }
  const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
  require(found.has_value());
  return answer_of(machine, data, attribute, *found, pointer);
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                  hipDeviceptr_t pointer) {
  return call(__func__, [&](runtime& machine) {
    require(data != nullptr && pointer != nullptr);
    return answer_at(machine, data, value_of(attribute), pointer);
  });
}

hipError_t hipDrvPointerGetAttributes(unsigned int count, hipPointer_attribute* attributes,
                                      void** data, hipDeviceptr_t pointer) {
  return call(__func__, [&](runtime& machine) {
    require(count != 0 && attributes != nullptr && data != nullptr && pointer != nullptr);
    for (unsigned i = 0; i < count; ++i) {
      require(data[i] != nullptr);
      const int attribute = value_of(attributes[i]);
      try {
        if (answer_at(machine, data[i], attribute, pointer) == hipSuccess) continue;
      } catch (const failure&) {
      }
      answer_with_nothing(machine, data[i], attribute);
    }
    return hipSuccess;
  });
}

hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute attribute,
                                  hipDeviceptr_t pointer) {
  return call(__func__, [&](runtime& machine) {
    require(value != nullptr && pointer != nullptr);
    require(value_of(attribute) == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS);
    const bool synchronous = *static_cast<const std::uint32_t*>(value) != 0;
    require(machine.addresses().set_synchronous(address_of(pointer), synchronous),
            hipErrorInvalidDevicePointer);
    return hipSuccess;
  });
}
