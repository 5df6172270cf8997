// SPDX-License-Identifier: MIT
#include "base/current.hpp"

#include "base/driver.hpp"
#include "base/failure.hpp"
#include "base/pushed_context.hpp"
#include "base/translate.hpp"

namespace hipvmm::cuda_provider {
namespace {

// Trivial, so that they can be used until the very end of the thread.
thread_local hipError_t thread_last_error = hipSuccess;
thread_local int thread_device = 0;

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

CUcontext context_of(hipStream_t stream) {
  CUcontext context = nullptr;
  if (is_special(stream)) return driver::get().primary(current_device());
  check(cuStreamGetCtx(to_cuda(stream), &context));
  return context;
}

hipError_t& last_error() noexcept { return thread_last_error; }

}  // namespace hipvmm::cuda_provider
