// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

/// Throws "invalid value" for an attribute that CUDA lacks.
int attribute_value(int attribute, CUdevice device);

}  // namespace hipvmm::cuda_provider
