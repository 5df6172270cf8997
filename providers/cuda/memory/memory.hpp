// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

class driver;

/// Whether the memory is freed in stream order: a pool's or a graph's. Throws if the driver does
/// not know it.
bool is_stream_ordered(CUdeviceptr start);

/// Frees memory of hipMalloc, hipMallocManaged, a pool or a graph, after all work that may use it.
void free_now(driver& machine, CUdeviceptr start);

}  // namespace hipvmm::cuda_provider
