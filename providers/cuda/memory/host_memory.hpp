// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

/// The flags of pinned host memory, in HIP's terms, as far as the driver tells them.
CUresult get_host_flags(void* pointer, unsigned& flags);

}  // namespace hipvmm::cuda_provider
