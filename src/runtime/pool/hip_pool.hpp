// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <shared_mutex>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

// HIP's stream-ordered pools and their memory.
namespace hipvmm::detail {

/// Checks that `device` has memory pools.
/// Throws: std::invalid_argument when there is no such device; unsupported if it has no pools.
void require_pools(device_ref device);

/// Lock held while HIP creates, imports or destroys a pool: keep_pool_searches_out(), and empty on
/// CUDA, which needs none. Throws: hip_error when HIP does not tell its version.
[[nodiscard]] std::unique_lock<std::shared_mutex> lock_for_pool_change();

/// Creates a pool on `device` that can be exported as `shareable` says.
/// Throws: unsupported if the device has no pools; hip_error.
[[nodiscard]] hipMemPool_t create_pool(device_ref device, hipMemAllocationHandleType shareable);
void destroy_pool(hipMemPool_t pool) noexcept;

/// hipMallocFromPoolAsync. `pointer` is set when the result is hipSuccess.
[[nodiscard]] hipError_t allocate_from(hipMemPool_t pool, stream_ref stream, std::size_t bytes,
                                       void*& pointer) noexcept;

/// hipFreeAsync.
[[nodiscard]] hipError_t free_in(stream_ref stream, void* pointer) noexcept;

/// The same; reports failures.
void free_async(stream_ref stream, void* pointer) noexcept;

/// Returns false if HIP refuses, and it may be tried again. Reports the refusal, unless another
/// stream is captured, or not `reports`.
[[nodiscard]] bool try_free_async(stream_ref stream, void* pointer, bool reports = true) noexcept;

}  // namespace hipvmm::detail
