// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::cuda_provider {

/// The calls that HIPVMM_CUDA_DELAYS can make slower, to give this GPU the prices of another.
enum class priced_call { create, map, set_access, unmap, release, allocate };

/// Sleeps for the delay of `call`. Throws "invalid value" if the environment is not valid, which
/// the first call reports to standard error.
void delay(priced_call call);

}  // namespace hipvmm::cuda_provider
