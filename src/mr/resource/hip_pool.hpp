// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <mutex>
#include <shared_mutex>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

// Functions shared by HIP pools and imported pools.
namespace hipvmm::detail {

/// Checks that `device` has memory pools.
/// Throws: std::invalid_argument when there is no such device; unsupported where it has no pools.
void require_pools(device_ref device);

/// Lock held while HIP creates, imports or destroys a pool: keep_pool_searches_out(), and empty on
/// CUDA, which needs none. Throws: hip_error when HIP does not tell its version.
[[nodiscard]] std::unique_lock<std::shared_mutex> lock_for_pool_change();

void destroy_pool(hipMemPool_t pool) noexcept;

void free_async(stream_ref stream, void* pointer) noexcept;

/// Returns false where HIP refuses because another stream is captured, and reports other failures.
[[nodiscard]] bool try_free_async(stream_ref stream, void* pointer) noexcept;

}  // namespace hipvmm::detail
