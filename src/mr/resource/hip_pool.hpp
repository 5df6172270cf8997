// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

// Functions shared by HIP pools and imported pools.
namespace hipvmm::detail {

/// Checks that `device` has memory pools.
/// Throws: std::invalid_argument when there is no such device; unsupported where it has no pools.
void require_pools(device_ref device);

void destroy_pool(hipMemPool_t pool) noexcept;

void free_async(stream_ref stream, void* pointer) noexcept;

/// Returns false where HIP refuses because another stream is captured, and reports other failures.
[[nodiscard]] bool try_free_async(stream_ref stream, void* pointer) noexcept;

}  // namespace hipvmm::detail
