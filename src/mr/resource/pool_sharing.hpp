// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <hipvmm/mr/resource/pool_sharing.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>

// Access rights to a HIP pool, own or imported. Throw: std::invalid_argument, unsupported,
// hip_error.
namespace hipvmm::detail {

[[nodiscard]] access_right pool_right(hipMemPool_t pool, device_ref device);

void set_pool_right(hipMemPool_t pool, device_ref owner, access_desc desc);

}  // namespace hipvmm::detail
