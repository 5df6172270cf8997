// SPDX-License-Identifier: MIT
#include "base/pushed_context.hpp"

#include "base/failure.hpp"

namespace hipvmm::cuda_provider {

CUcontext current_context() {
  CUcontext context = nullptr;
  check(cuCtxGetCurrent(&context));
  return context;
}

pushed_context::pushed_context(CUcontext context) {
  if (current_context() == context) return;
  check(cuCtxPushCurrent(context));
  pushed_ = true;
}

pushed_context::~pushed_context() {
  CUcontext ours = nullptr;
  if (pushed_) static_cast<void>(cuCtxPopCurrent(&ours));
}

}  // namespace hipvmm::cuda_provider
