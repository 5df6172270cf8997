// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <shared_mutex>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::detail {

/// Throws: std::invalid_argument if there is no such device; unsupported if it has no pools.
void require_pools(device_ref device);

/// keep_pool_searches_out() for a change of pools; empty on CUDA. Throws: hip_error.
[[nodiscard]] std::unique_lock<std::shared_mutex> lock_for_pool_change();

/// Throws: as require_pools(); hip_error.
[[nodiscard]] hipMemPool_t create_pool(device_ref device, hipMemAllocationHandleType shareable);
void destroy_pool(hipMemPool_t pool) noexcept;

/// `pointer` is set if the result is hipSuccess.
[[nodiscard]] hipError_t allocate_from(hipMemPool_t pool, stream_ref stream, std::size_t bytes,
                                       void*& pointer) noexcept;

[[nodiscard]] hipError_t free_in(stream_ref stream, void* pointer) noexcept;

/// free_in() that reports failures.
void free_async(stream_ref stream, void* pointer) noexcept;

/// Returns false if HIP refuses and the call may be repeated. Reports the refusal if `reports`,
/// unless another stream is captured.
[[nodiscard]] bool try_free_async(stream_ref stream, void* pointer, bool reports = true) noexcept;

}  // namespace hipvmm::detail
