// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

namespace hipvmm::cuda_provider {

/// Whether `stream` is in a capture, be it an invalidated one.
bool is_captured(hipStream_t stream);

}  // namespace hipvmm::cuda_provider
