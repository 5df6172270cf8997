// SPDX-License-Identifier: MIT
#include "runtime/pointer_memory.hpp"

#include "core/check.hpp"
#include "core/hip_compat.hpp"

namespace hipvmm::detail {

pointer_memory memory_at(const void* pointer) noexcept {
  hipPointerAttribute_t attributes{};
  const hipError_t result = hipPointerGetAttributes(&attributes, pointer);
  if (result != hipSuccess) {
    clear_last_error();
    // HIP 5 and CUDA 10 refuse addresses that they do not know.
    if (result == hipErrorInvalidValue) return {pointer_kind::unknown, device_ref{0}};
    return {pointer_kind::no_answer, device_ref{0}, result};
  }
  const device_ref device{attributes.device};
  if (attributes.isManaged != 0) return {pointer_kind::managed, device};
  const hipMemoryType type = hip_compat::memory_type(attributes);
  if (type == hipMemoryTypeDevice) return {pointer_kind::device, device};
  return {
      type == hip_compat::unregistered_memory_type ? pointer_kind::unknown : pointer_kind::pinned,
      device};
}

std::optional<device_ref> device_of_memory(const void* pointer) {
  const pointer_memory found = memory_at(pointer);
  if (found.kind != pointer_kind::device) return std::nullopt;
  return found.device;
}

const void* first_without_memory(const void* address, std::size_t bytes) noexcept {
  if (bytes == 0) return nullptr;
  const void* const last = static_cast<const char*>(address) + (bytes - 1);
  for (const void* each : {address, last})
    if (memory_at(each).kind == pointer_kind::unknown) return each;
  return nullptr;
}

hipError_t query_access(const void* address, device_ref device,
                        unsigned long long& flags) noexcept {
  hipMemLocation location{};
  location.type = hipMemLocationTypeDevice;
  location.id = device.ordinal();
  return hipMemGetAccess(&flags, &location, const_cast<void*>(address));
}

hipError_t query_range(const void* pointer, const void*& base, std::size_t& bytes) noexcept {
  // AMD's runtime crashes if either result is left out: docs/guides/rocm.md.
  hipDeviceptr_t start = nullptr;
  const hipError_t result = hipMemGetAddressRange(&start, &bytes, const_cast<void*>(pointer));
  base = start;
  return result;
}

const void* end_of_memory(const void* pointer) noexcept {
  const void* base = nullptr;
  std::size_t bytes = 0;
  if (query_range(pointer, base, bytes) != hipSuccess) {
    clear_last_error();
    return nullptr;
  }
  return static_cast<const char*>(base) + bytes;
}

}  // namespace hipvmm::detail
