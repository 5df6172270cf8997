// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstring>

// The one file that knows HIP header versions. It includes nothing of hipvmm, so that the providers
// may use it too. Read against 5.2.3, 5.7.1 and 6.4.3; 7.x by its published sources.
namespace hipvmm::hip_compat {

// hipPointerAttribute_t calls the field `memoryType` up to 5.x and `type` from 6.0 on.
// Managed memory has a type of its own from 6.0 on and counts as host memory before.
#if HIP_VERSION_MAJOR >= 6
inline auto& memory_type(hipPointerAttribute_t& attributes) { return attributes.type; }
inline constexpr hipMemoryType managed_memory_type = hipMemoryTypeManaged;
#else
inline auto& memory_type(hipPointerAttribute_t& attributes) { return attributes.memoryType; }
inline constexpr hipMemoryType managed_memory_type = hipMemoryTypeHost;
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

// hipMemImportFromShareableHandle takes a pointer to the descriptor up to ROCm 7.0 and the
// descriptor's value, cast to a pointer, from 7.1 on (ROCm/rocm-systems#11020). This is a property
// of the runtime, not of the header: `runtime_version` is what hipRuntimeGetVersion gave.
inline bool imports_descriptor_by_value(int runtime_version) {
  return runtime_version >= 7 * 10000000 + 1 * 100000;
}

// hipMemPoolProps has `maxSize` from 6.2 on, in the place of the first reserved bytes, which had to
// be zero before: read from there, it means the same under any header.
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

}  // namespace hipvmm::hip_compat
