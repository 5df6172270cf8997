// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstring>

// The only file that depends on HIP header versions. It includes nothing of hipvmm: the providers
// may use it too. Checked against the headers of 5.2.3, 5.7.1, 6.4.3 and 7.2.4, and against the
// published header of the HIP 10 line, whose functions depend on HIP_FORCE_API_VERSION.
namespace hipvmm::hip_compat {

// hipPointerAttribute_t calls the field `memoryType` up to 5.x and `type` from 6.0 on.
// - Managed memory has a type of its own from 6.0 on and counts as host memory before.
// - Memory that HIP does not know has a type of its own from 6.0 on; with older headers it gets the
//   type that they do not use.
#if HIP_VERSION_MAJOR >= 6
inline auto& memory_type(hipPointerAttribute_t& attributes) { return attributes.type; }
inline constexpr hipMemoryType managed_memory_type = hipMemoryTypeManaged;
inline constexpr hipMemoryType unregistered_memory_type = hipMemoryTypeUnregistered;
#else
inline auto& memory_type(hipPointerAttribute_t& attributes) { return attributes.memoryType; }
inline constexpr hipMemoryType managed_memory_type = hipMemoryTypeHost;
inline constexpr hipMemoryType unregistered_memory_type = hipMemoryTypeUnified;
#endif

// hipDeviceAttributeVirtualMemoryManagementSupported appears in 5.3. Its place in the enumeration
// is after hipDeviceAttributeMemoryPoolsSupported, the last CUDA-compatible one of 5.2.
#if HIP_VERSION_MAJOR > 5 || (HIP_VERSION_MAJOR == 5 && HIP_VERSION_MINOR >= 3)
inline constexpr hipDeviceAttribute_t virtual_memory_management_supported =
    hipDeviceAttributeVirtualMemoryManagementSupported;
#else
inline constexpr auto virtual_memory_management_supported =
    static_cast<hipDeviceAttribute_t>(hipDeviceAttributeMemoryPoolsSupported + 1);
#endif

// Newer than 5.2. Their values have not changed since: after the one above, and after
// hipDeviceAttributeFineGrainSupport, the last of AMD's own in 5.2.
inline constexpr int host_register_supported =
    static_cast<int>(virtual_memory_management_supported) + 1;
inline constexpr int memory_pool_handle_types = host_register_supported + 1;
inline constexpr int wall_clock_rate = static_cast<int>(hipDeviceAttributeFineGrainSupport) + 1;

// The function to define for hipGetDeviceProperties. From 6.0 on it is another symbol, because
// hipDeviceProp_t is another type. Up to 7.x the name is a macro for it, in HIP 10 an inline
// function that calls it.
#if HIP_VERSION_MAJOR >= 6
#define HIPVMM_GET_DEVICE_PROPERTIES hipGetDevicePropertiesR0600
#else
#define HIPVMM_GET_DEVICE_PROPERTIES hipGetDeviceProperties
#endif

// From 6.0 on hipDeviceProp_t contains what only attributes reported before. `attribute(number)`
// returns the result of hipDeviceGetAttribute.
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

// hipLimitStackSize is newer than 5.2, where its number is free.
inline constexpr int limit_stack_size = 0;
// Numbers of limits end here. hipLimitRange is newer than 5.2, whose limits end after the heap.
#if HIP_VERSION_MAJOR > 5 || (HIP_VERSION_MAJOR == 5 && HIP_VERSION_MINOR >= 7)
inline constexpr int limit_range = hipLimitRange;
#else
inline constexpr int limit_range = hipLimitMallocHeapSize + 1;
#endif
// hipDeviceLmemResizeToMax, whose value in the header of 5.2 also names two schedules.
inline constexpr unsigned local_memory_resize_to_max = 0x10;

// hipEventDisableSystemFence and hipMemcpyDeviceToDeviceNoCU are newer than 5.2.
inline constexpr unsigned event_disable_system_fence = 0x20000000;
inline constexpr int device_to_device_no_cu = 1024;

// hipMemLocationTypeHost, two more for nodes of the host and hipMemAllocationTypeUncached are newer
// than 6.4.
inline constexpr int host_location = 2;
inline constexpr int host_node_location = 3;
inline constexpr int nearest_host_node_location = 4;
inline constexpr int uncached_allocation = 0x40000000;

// The place of a chunk in memory of the host.
inline hipMemLocation place_on_host() noexcept {
  hipMemLocation result{};
  // Copied, for older headers have no enumerator of this number.
  std::memcpy(&result.type, &host_location, sizeof(result.type));
  return result;
}

// The same on one node.
inline hipMemLocation place_on_host_node(int node) noexcept {
  hipMemLocation result{};
  std::memcpy(&result.type, &host_node_location, sizeof(result.type));
  result.id = node;
  return result;
}
inline bool is_on_host_node(const hipMemLocation& place) noexcept {
  return std::memcmp(&place.type, &host_node_location, sizeof(place.type)) == 0;
}

// The type of a chunk whose bytes no cache keeps. Copied as above.
inline void set_uncached(hipMemAllocationProp& properties) noexcept {
  std::memcpy(&properties.type, &uncached_allocation, sizeof(properties.type));
}
inline bool is_uncached(const hipMemAllocationProp& properties) noexcept {
  return std::memcmp(&properties.type, &uncached_allocation, sizeof(properties.type)) == 0;
}

// Whether a chunk that was made there is memory of the host.
inline bool is_on_host(const hipMemLocation& place) noexcept {
  int type = 0;
  std::memcpy(&type, &place.type, sizeof(type));
  return type >= host_location && type <= nearest_host_node_location;
}

// The kind of handle that hipMemGetHandleForAddressRange gives. Headers before 7.0 have neither the
// type nor the function; both are an int to the linker.
#if HIP_VERSION_MAJOR >= 7
using range_handle_type = hipMemRangeHandleType;
#else
enum range_handle_type : int {};
#endif
inline constexpr int dma_buf_of_range = 1;

// hipMemHandleTypeFabric is newer than 7.2; its number is CUDA's, and a chunk may be asked for with
// both kinds.
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

// Whether a chunk is compressed, and what it is for: fields of allocFlags in headers since 5.7.
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

// The last argument of hipMemAdvise, from a device's ordinal or hipCpuDeviceId. It converts to what
// the header declares: an int or, in the HIP 10 line, a hipMemLocation (ROCm/rocm-systems#10358).
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

// Numbers of hipRuntimeGetVersion. HIP's first is 10000000; those below are CUDA's.
inline bool is_cuda_version(int version) { return version < 10000000; }
inline bool is_at_least(int version, int major, int minor) {
  return version >= major * 10000000 + minor * 100000;
}

// hipMemImportFromShareableHandle takes a pointer to the descriptor up to ROCm 7.0 and the
// descriptor's value, cast to a pointer, from 7.1 on (ROCm/rocm-systems#11020); CUDA takes the
// value. This is a property of the runtime, not of the header.
inline bool imports_descriptor_by_value(int runtime_version) {
  return is_cuda_version(runtime_version) || is_at_least(runtime_version, 7, 1);
}

// From ROCm 6.1, the first with addresses, to 6.4, hipMemAddressFree leaves the record of the
// addresses to the last command that used them: late_record and unwaited_stream in
// docs/guides/rocm.md. Observed on 6.4.3, not on 7.2.4; releases between were not run.
inline bool forgets_addresses_late(int runtime_version) {
  return is_at_least(runtime_version, 6, 1) && !is_at_least(runtime_version, 7, 0);
}

// From ROCm 7.14 on hipMemUnmap waits for all streams of the devices with access:
// docs/guides/rocm.md, from the source. There is no probe for it: that would need work that can be
// delayed.
inline bool unmap_waits_for_streams(int runtime_version) {
  return is_at_least(runtime_version, 7, 14);
}

// On AMD's runtime 7.2.4 an event behind a copy to the host in one of several streams passed while
// the copy ran, as the stand-in for ROCr reported at the unmap behind it. Why, and whether a GPU
// and other releases do so, is not known: suspend() relies on none of AMD's. docs/guides/rocm.md.
inline bool events_pass_before_copies(int runtime_version) {
  return is_at_least(runtime_version, 5, 7);
}

// From ROCm 7.14 on the owner reads other pages between the grant of a peer and its own grant,
// which is last (openxla/xla#46576). Fixed by ROCm/rocm-systems#9908, newer than the branch of 10.0
// and older than that of 10.1; which release has it has not been seen: docs/guides/rocm.md.
inline bool late_grant_moves_pages(int runtime_version) {
  return is_at_least(runtime_version, 7, 14);
}

// hipMemMap reports failures after the checks of its arguments from ROCm 7.14 on
// (ROCm/rocm-systems#7685), and on CUDA.
inline bool reports_failed_map(int runtime_version) {
  return is_cuda_version(runtime_version) || is_at_least(runtime_version, 7, 14);
}

// AMD's pools allocate a block to the stream of its allocation without a wait for the stream of its
// free. hipFreeAsync blocks the host while the earlier free of a reused block is not done. Observed
// on 6.4.3 and 7.2.4, and the same in all published sources. CUDA's pools do neither.
inline bool pools_reuse_in_order(int runtime_version) { return is_cuda_version(runtime_version); }

// AMD's runtime searches all pools of a device for what is freed. Beside hipMemPoolCreate and
// hipMemPoolDestroy in other threads 6.4.3 crashes in hipFree, hipFreeAsync and hipStreamDestroy;
// 7.2.4 blocks for good in hipFree and hipDeviceSynchronize. CUDA is not known to.
inline bool pools_change_beside_frees(int runtime_version) {
  return is_cuda_version(runtime_version);
}

// hipDevP2PAttrPerformanceRank is an order of links on CUDA, 0 the fastest; AMD's runtime gives the
// number of the link's type (ROCm/clr, hip_peer.cpp; seen on 5.7.1, 6.4.3 and 7.2.4).
inline bool ranks_links(int runtime_version) { return is_cuda_version(runtime_version); }

// hipMemPoolProps has `maxSize` from 6.2 on, in place of the first reserved bytes, which had to be
// zero before. Read from this offset, it means the same with any header.
inline unsigned long long max_pool_bytes(const hipMemPoolProps& properties) {
  constexpr std::size_t place = offsetof(hipMemPoolProps, win32SecurityAttributes) + sizeof(void*);
  unsigned long long bytes = 0;
  std::memcpy(&bytes, reinterpret_cast<const char*>(&properties) + place, sizeof(bytes));
  return bytes;
}

// hipStreamLegacy names the null stream from 6.x on; its value, 1, is no stream in older headers.
inline bool is_legacy_stream(hipStream_t stream) {
  return stream == nullptr || reinterpret_cast<unsigned long long>(stream) == 1;
}

// Headers that number the types of nodes from 0 have memory nodes, under CUDA's numbers. The header
// of 5.2 numbers from 1 and has none: they get numbers that it does not use.
inline constexpr int graph_node_type_mem_alloc =
    static_cast<int>(hipGraphNodeTypeKernel) == 0 ? 10 : static_cast<int>(hipGraphNodeTypeCount);
inline constexpr int graph_node_type_mem_free = graph_node_type_mem_alloc + 1;

}  // namespace hipvmm::hip_compat
