// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>
#include <hip/hip_runtime_api.h>

#include "providers/failure.hpp"

namespace hipvmm::cuda_provider {

using provider::failure;
using provider::require;

hipError_t error_of(CUresult result) noexcept;

inline void check(CUresult result) {
  if (result != CUDA_SUCCESS) throw failure{error_of(result)};
}

}  // namespace hipvmm::cuda_provider
