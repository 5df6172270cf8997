// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include "providers/failure.hpp"

namespace hipvmm::host_provider {

using provider::failure;
using provider::require;

/// The HIP error for a failed system call's errno.
/// ROCm reports a process that is out of descriptors as out of memory, so this does too.
hipError_t error_of_errno(int number) noexcept;

}  // namespace hipvmm::host_provider
