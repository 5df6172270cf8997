// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <hipvmm/mr/resource/pool_sharing.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>

// For pools of this process and imported ones. Throw: as hip_async_resource::grant(); hip_error.
namespace hipvmm::detail {

[[nodiscard]] access_right pool_right(hipMemPool_t pool, device_ref device);

void set_pool_right(hipMemPool_t pool, device_ref owner, access_desc desc);

}  // namespace hipvmm::detail
