// SPDX-License-Identifier: MIT
#include "current.hpp"

#include "driver.hpp"
#include "failure.hpp"
#include "translate.hpp"

namespace hipvmm::cuda_provider {
namespace {

// Trivial, so that they can be used until the very end of the thread.
thread_local hipError_t thread_last_error = hipSuccess;
thread_local int thread_device = 0;

CUcontext current_context() {
  CUcontext context = nullptr;
  check(cuCtxGetCurrent(&context));
  return context;
}

}  // namespace

int current_device() {
  const CUcontext context = current_context();
  if (context == nullptr) return thread_device;
  const int owner = driver::get().owner_of(context);
  return owner < 0 ? thread_device : owner;
}

void set_current_device(int device) {
  driver& machine = driver::get();
  const CUcontext wanted = machine.primary(device);
  const CUcontext context = current_context();
  if (context == nullptr || (context != wanted && machine.owner_of(context) >= 0)) {
    check(cuCtxSetCurrent(wanted));
  }
  thread_device = device;
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

CUcontext context_of(hipStream_t stream) {
  CUcontext context = nullptr;
  if (is_special(stream)) return driver::get().primary(current_device());
  check(cuStreamGetCtx(to_cuda(stream), &context));
  return context;
}

hipError_t& last_error() noexcept { return thread_last_error; }

}  // namespace hipvmm::cuda_provider
