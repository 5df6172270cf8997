// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

namespace hipvmm::cuda_provider {

/// Also for an invalidated capture.
bool is_captured(hipStream_t stream);

}  // namespace hipvmm::cuda_provider
