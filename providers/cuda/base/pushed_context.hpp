// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

/// Null if there is none.
CUcontext current_context();

/// Makes a context current, and at its end the former one.
class pushed_context {
 public:
  explicit pushed_context(CUcontext context);
  ~pushed_context();
  pushed_context(const pushed_context&) = delete;
  pushed_context& operator=(const pushed_context&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace hipvmm::cuda_provider
