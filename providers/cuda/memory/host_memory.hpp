// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

/// HIP's flags of pinned host memory, as far as the driver reports them.
CUresult get_host_flags(void* pointer, unsigned& flags);

}  // namespace hipvmm::cuda_provider
