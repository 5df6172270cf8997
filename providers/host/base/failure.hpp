// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include "providers/failure.hpp"

namespace hipvmm::host_provider {

using provider::failure;
using provider::require;

/// A process that is out of descriptors is out of memory, as ROCm reports it.
hipError_t error_of_errno(int number) noexcept;

}  // namespace hipvmm::host_provider
