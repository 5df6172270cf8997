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
// set_current_device() has set a context in a thread that had none and whose HIP device was 0, as
// the CUDA runtime's is in such a thread.
thread_local bool had_no_context = false;

/// HIP's current device if `context` is the current one; null: none is.
int device_beside(CUcontext context) {
  if (context == nullptr) return thread_device;
  const int owner = driver::get().owner_of(context);
  return owner < 0 ? thread_device : owner;
}

}  // namespace

int current_device() { return device_beside(current_context()); }

CUcontext bound_primary() {
  driver& machine = driver::get();
  const CUcontext context = current_context();
  const CUcontext used = machine.primary(device_beside(context));
  if (context == nullptr) check(cuCtxSetCurrent(used));
  return used;
}

CUcontext any_bound_primary() {
  driver& machine = driver::get();
  const CUcontext context = current_context();
  const int device = device_beside(context);
  const bool is_used = machine.has_primary(device);
  const CUcontext used = machine.any_primary(device);
  if (context == nullptr && is_used) check(cuCtxSetCurrent(used));
  return used;
}

void set_current_device(int device) {
  driver& machine = driver::get();
  const CUcontext context = current_context();
  if (context == nullptr)
    had_no_context = thread_device == 0;
  else if (machine.owner_of(context) != thread_device)
    had_no_context = false;
  // As the thread was before, for the CUDA runtime too. No context is made to restore that state.
  if (device == 0 && had_no_context && !machine.has_primary(device)) {
    if (context != nullptr) check(cuCtxSetCurrent(nullptr));
    thread_device = device;
    return;
  }
  const CUcontext wanted = machine.primary(device);
  if (context == nullptr || (context != wanted && machine.owner_of(context) >= 0)) {
    check(cuCtxSetCurrent(wanted));
  }
  thread_device = device;
}

CUcontext context_of(hipStream_t stream) {
  CUcontext context = nullptr;
  if (is_special(stream)) return bound_primary();
  check(cuStreamGetCtx(to_cuda(stream), &context));
  return context;
}

hipError_t& last_error() noexcept { return thread_last_error; }

}  // namespace hipvmm::cuda_provider
