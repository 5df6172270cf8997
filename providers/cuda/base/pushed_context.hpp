// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace hipvmm::cuda_provider {

/// The calling thread's current context; null if there is none.
CUcontext current_context();

/// Makes a context current, unless it is, and the former one again at the end.
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
