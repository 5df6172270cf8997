// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstring>

// The only file that depends on HIP header versions; it includes nothing of hipvmm, because
// providers use it too. Checked against 5.2.3, 5.7.1, 6.4.3, 7.2.4 and the HIP 10 line; there
// functions depend on HIP_FORCE_API_VERSION.
namespace hipvmm::hip_compat {

// The field is `memoryType` up to 5.x. Older headers report managed memory as the host's, and have
// no type for memory that HIP does not know: an unused one stands for it.
#if HIP_VERSION_MAJOR >= 6
inline auto& memory_type(hipPointerAttribute_t& attributes) { return attributes.type; }
inline constexpr hipMemoryType managed_memory_type = hipMemoryTypeManaged;
inline constexpr hipMemoryType unregistered_memory_type = hipMemoryTypeUnregistered;
#else
inline auto& memory_type(hipPointerAttribute_t& attributes) { return attributes.memoryType; }
inline constexpr hipMemoryType managed_memory_type = hipMemoryTypeHost;
inline constexpr hipMemoryType unregistered_memory_type = hipMemoryTypeUnified;
#endif

// Newer than 5.2: there the last CUDA-compatible one is hipDeviceAttributeMemoryPoolsSupported.
#if HIP_VERSION_MAJOR > 5 || (HIP_VERSION_MAJOR == 5 && HIP_VERSION_MINOR >= 3)
inline constexpr hipDeviceAttribute_t virtual_memory_management_supported =
    hipDeviceAttributeVirtualMemoryManagementSupported;
#else
inline constexpr auto virtual_memory_management_supported =
    static_cast<hipDeviceAttribute_t>(hipDeviceAttributeMemoryPoolsSupported + 1);
#endif

// Newer than 5.2: numbered behind the one above, and behind AMD's last attribute of 5.2.
inline constexpr int host_register_supported =
    static_cast<int>(virtual_memory_management_supported) + 1;
inline constexpr int memory_pool_handle_types = host_register_supported + 1;
inline constexpr int wall_clock_rate = static_cast<int>(hipDeviceAttributeFineGrainSupport) + 1;

// From 6.0 on hipDeviceProp_t is another type, and its function another symbol. The name is a macro
// for that up to 7.x, and an inline function in HIP 10.
#if HIP_VERSION_MAJOR >= 6
#define HIPVMM_GET_DEVICE_PROPERTIES hipGetDevicePropertiesR0600
#else
#define HIPVMM_GET_DEVICE_PROPERTIES hipGetDeviceProperties
#endif

template <class Attribute>
void set_newer_properties([[maybe_unused]] hipDeviceProp_t& properties,
                          [[maybe_unused]] const hipUUID& uuid,
                          [[maybe_unused]] const Attribute& attribute) {
#if HIP_VERSION_MAJOR >= 6
  properties.uuid = uuid;
  properties.asyncEngineCount = attribute(hipDeviceAttributeAsyncEngineCount);
  properties.unifiedAddressing = attribute(hipDeviceAttributeUnifiedAddressing);
  properties.canUseHostPointerForRegisteredMem =
      attribute(hipDeviceAttributeCanUseHostPointerForRegisteredMem);
  properties.hostRegisterSupported = attribute(host_register_supported);
  properties.memoryPoolsSupported = attribute(hipDeviceAttributeMemoryPoolsSupported);
  properties.memoryPoolSupportedHandleTypes =
      static_cast<unsigned>(attribute(memory_pool_handle_types));
#endif
}

// hipLimitStackSize is newer than 5.2. There its number is free.
inline constexpr int limit_stack_size = 0;
// The end of the numbers of limits. hipLimitRange is newer than 5.2.
#if HIP_VERSION_MAJOR > 5 || (HIP_VERSION_MAJOR == 5 && HIP_VERSION_MINOR >= 7)
inline constexpr int limit_range = hipLimitRange;
#else
inline constexpr int limit_range = hipLimitMallocHeapSize + 1;
#endif
// hipDeviceLmemResizeToMax. In the header of 5.2 its value is also two schedules'.
inline constexpr unsigned local_memory_resize_to_max = 0x10;

// hipEventDisableSystemFence and hipMemcpyDeviceToDeviceNoCU are newer than 5.2.
inline constexpr unsigned event_disable_system_fence = 0x20000000;
inline constexpr int device_to_device_no_cu = 1024;

// Newer than 6.4: hipMemLocationTypeHost, two for nodes of the host, hipMemAllocationTypeUncached.
inline constexpr int host_location = 2;
inline constexpr int host_node_location = 3;
inline constexpr int nearest_host_node_location = 4;
inline constexpr int uncached_allocation = 0x40000000;

inline hipMemLocation place_on_host() noexcept {
  hipMemLocation result{};
  // Copied, because older headers have no enumerator of this number.
  std::memcpy(&result.type, &host_location, sizeof(result.type));
  return result;
}

inline hipMemLocation place_on_host_node(int node) noexcept {
  hipMemLocation result{};
  std::memcpy(&result.type, &host_node_location, sizeof(result.type));
  result.id = node;
  return result;
}
inline bool is_on_host_node(const hipMemLocation& place) noexcept {
  return std::memcmp(&place.type, &host_node_location, sizeof(place.type)) == 0;
}

inline void set_uncached(hipMemAllocationProp& properties) noexcept {
  std::memcpy(&properties.type, &uncached_allocation, sizeof(properties.type));
}
inline bool is_uncached(const hipMemAllocationProp& properties) noexcept {
  return std::memcmp(&properties.type, &uncached_allocation, sizeof(properties.type)) == 0;
}

inline bool is_on_host(const hipMemLocation& place) noexcept {
  int type = 0;
  std::memcpy(&type, &place.type, sizeof(type));
  return type >= host_location && type <= nearest_host_node_location;
}

// Headers before 7.0 lack the type and its function; to the linker the argument is an int.
#if HIP_VERSION_MAJOR >= 7
using range_handle_type = hipMemRangeHandleType;
#else
enum range_handle_type : int {};
#endif
inline constexpr int dma_buf_of_range = 1;

// hipMemHandleTypeFabric is newer than 7.2, with CUDA's number. A chunk may have it beside the
// descriptor's kind.
inline constexpr int fabric_handle_kind = 8;
inline constexpr std::size_t fabric_handle_bytes = 64;
inline void set_handle_kinds(hipMemAllocationProp& properties, int kinds) noexcept {
  std::memcpy(&properties.requestedHandleType, &kinds, sizeof(kinds));
}
inline int handle_kinds(const hipMemAllocationProp& properties) noexcept {
  int kinds = 0;
  std::memcpy(&kinds, &properties.requestedHandleType, sizeof(kinds));
  return kinds;
}

// In allocFlags in headers since 5.7.
template <class Properties>
constexpr auto& compression_type(Properties& properties) noexcept {
  if constexpr (requires { properties.allocFlags; })
    return properties.allocFlags.compressionType;
  else
    return properties.compressionType;
}
template <class Properties>
constexpr auto& usage(Properties& properties) noexcept {
  if constexpr (requires { properties.allocFlags; })
    return properties.allocFlags.usage;
  else
    return properties.usage;
}

// The last argument of hipMemAdvise, from an ordinal or hipCpuDeviceId: an int or, in the HIP 10
// line, a hipMemLocation (ROCm/rocm-systems#10358).
class advice_place {
 public:
  using location = hipMemLocation;

  explicit constexpr advice_place(int ordinal) noexcept : ordinal_{ordinal} {}

  constexpr operator int() const noexcept { return ordinal_; }
  operator location() const noexcept {
    return ordinal_ == hipCpuDeviceId ? place_on_host()
                                      : location{hipMemLocationTypeDevice, ordinal_};
  }

 private:
  int ordinal_;
};

// `maxSize` since 6.2; before that reserved bytes that had to be zero.
inline unsigned long long max_pool_bytes(const hipMemPoolProps& properties) {
  constexpr std::size_t place = offsetof(hipMemPoolProps, win32SecurityAttributes) + sizeof(void*);
  unsigned long long bytes = 0;
  std::memcpy(&bytes, reinterpret_cast<const char*>(&properties) + place, sizeof(bytes));
  return bytes;
}

// Newer headers name 1 hipStreamLegacy, in older ones it is no stream.
inline bool is_legacy_stream(hipStream_t stream) {
  return stream == nullptr || reinterpret_cast<unsigned long long>(stream) == 1;
}

// CUDA's numbers; unused ones in the header of 5.2, which has no memory nodes and numbers from 1.
inline constexpr int graph_node_type_mem_alloc =
    static_cast<int>(hipGraphNodeTypeKernel) == 0 ? 10 : static_cast<int>(hipGraphNodeTypeCount);
inline constexpr int graph_node_type_mem_free = graph_node_type_mem_alloc + 1;

}  // namespace hipvmm::hip_compat
