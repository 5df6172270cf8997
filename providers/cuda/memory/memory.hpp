// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

class driver;

/// Whether the address is of memory that a stream frees in its turn, a pool's or a graph's; throws
/// where it is none the driver knows.
bool is_stream_ordered(CUdeviceptr start);

/// Frees what hipMalloc, hipMallocManaged, a pool or a graph gave, after all work that may use it.
void free_now(driver& machine, CUdeviceptr start);

}  // namespace hipvmm::cuda_provider
