// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>

// What a pool of HIP's and one that was imported have in common.
namespace hipvmm::detail {

/// Throws: std::invalid_argument when there is no such device; unsupported where it has no pools.
void require_pools(device_ref device);

void destroy_pool(hipMemPool_t pool) noexcept;

void free_async(stream_ref stream, void* pointer) noexcept;

}  // namespace hipvmm::detail
