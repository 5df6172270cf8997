// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <shared_mutex>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::detail {

/// Throws: std::invalid_argument when there is no such device; unsupported if it has no pools.
void require_pools(device_ref device);

/// Lock held while HIP creates, imports or destroys a pool: keep_pool_searches_out(), and empty on
/// CUDA, which needs none. Throws: hip_error when HIP does not tell its version.
[[nodiscard]] std::unique_lock<std::shared_mutex> lock_for_pool_change();

/// Throws: unsupported if the device has no pools; hip_error.
[[nodiscard]] hipMemPool_t create_pool(device_ref device, hipMemAllocationHandleType shareable);
void destroy_pool(hipMemPool_t pool) noexcept;

/// hipMallocFromPoolAsync. `pointer` is set when the result is hipSuccess.
[[nodiscard]] hipError_t allocate_from(hipMemPool_t pool, stream_ref stream, std::size_t bytes,
                                       void*& pointer) noexcept;

[[nodiscard]] hipError_t free_in(stream_ref stream, void* pointer) noexcept;

/// free_in() that reports failures.
void free_async(stream_ref stream, void* pointer) noexcept;

/// free_in() that returns false if HIP refuses, and may be called again. Reports the refusal,
/// unless another stream is captured, or not `reports`.
[[nodiscard]] bool try_free_async(stream_ref stream, void* pointer, bool reports = true) noexcept;

}  // namespace hipvmm::detail
