// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>
#include <hip/hip_runtime_api.h>

namespace hipvmm::cuda_provider {

class driver;

/// Throws `missing` for a device that does not exist and "invalid value" for another kind of place,
/// of which older HIP has none.
CUmemLocation device_location(const driver& machine, const hipMemLocation& location,
                              hipError_t missing);

}  // namespace hipvmm::cuda_provider
