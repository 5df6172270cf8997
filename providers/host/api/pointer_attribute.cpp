// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstring>

#include "base/enum_value.hpp"
#include "machine/call.hpp"
#include "memory/tracked_range.hpp"

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

hipError_t answer_of(const runtime& machine, void* data, int attribute, const tracked_range& found,
                     void* pointer) {
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer(data, is_at_home_on_host(found) ? hipMemoryTypeHost : hipMemoryTypeDevice);
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer(data, pointer);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER: {
      const bool has_one = is_at_home_on_host(found);
      void* const none = nullptr;
      const hipError_t code = answer(data, has_one ? pointer : none);
      return has_one ? code : hipErrorInvalidValue;
    }
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return answer(data, false);
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

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                  hipDeviceptr_t pointer) {
  return call(__func__, [&](runtime& machine) {
    require(data != nullptr && pointer != nullptr);
    switch (value_of(attribute)) {
      case HIP_POINTER_ATTRIBUTE_CONTEXT:
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
    return answer_of(machine, data, value_of(attribute), *found, pointer);
  });
}
