// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

/// HIP's device attribute `attribute` of a device; throws "invalid value" if CUDA has none such.
int attribute_value(int attribute, CUdevice device);

}  // namespace hipvmm::cuda_provider
