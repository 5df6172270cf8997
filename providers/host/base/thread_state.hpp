// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

namespace hipvmm::host_provider {

/// The calling thread's last error and current device.
hipError_t& last_error() noexcept;
int& current_device() noexcept;

}  // namespace hipvmm::host_provider
