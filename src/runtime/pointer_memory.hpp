// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <optional>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// Empty for all but memory from hipMalloc, a pool or a mapping.
[[nodiscard]] std::optional<device_ref> device_of_memory(const void* pointer);

enum class pointer_kind {
  device,  ///< from hipMalloc, a pool or a mapping
  pinned,  ///< memory of the host that HIP knows
  managed,
  unknown,    ///< no memory of HIP
  no_answer,  ///< HIP failed
};
struct pointer_memory {
  pointer_kind kind;
  device_ref device;                ///< if `kind` is `device`
  hipError_t failure = hipSuccess;  ///< of hipPointerGetAttributes, if `kind` is `no_answer`
};
[[nodiscard]] pointer_memory memory_at(const void* pointer) noexcept;

/// Returns the first or the last byte if HIP knows no memory there, else null.
[[nodiscard]] const void* first_without_memory(const void* address, std::size_t bytes) noexcept;

[[nodiscard]] hipError_t query_access(const void* address, device_ref device,
                                      unsigned long long& flags) noexcept;

/// Stores the bounds of the allocation or mapping, on CUDA of a whole reservation. Pre: as
/// end_of_memory().
[[nodiscard]] hipError_t query_range(const void* pointer, const void*& base,
                                     std::size_t& bytes) noexcept;

/// Null if HIP does not know the end. Pre: memory_at(pointer) is of a device.
[[nodiscard]] const void* end_of_memory(const void* pointer) noexcept;

}  // namespace hipvmm::detail
