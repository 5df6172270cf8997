// SPDX-License-Identifier: MIT
#include "base/thread_state.hpp"
#include "machine/call.hpp"

// hipCtxGetApiVersion by its symbol, because the type of its second parameter differs between
// headers.
extern "C" [[gnu::visibility("default")]] hipError_t get_api_version(
    hipCtx_t context, void* version) __asm__("hipCtxGetApiVersion");

// AMD's contexts are the devices: each has one, which begins and ends with the process. To make,
// retain or destroy one changes only the stack of the calling thread.
namespace hipvmm::host_provider {
namespace {

hipCtx_t context_of(runtime& machine, int device) {
  return reinterpret_cast<hipCtx_t>(&machine.device(device));
}

int device_of(runtime& machine, hipCtx_t context) {
  for (int id = 0; id < machine.device_count(); ++id)
    if (context_of(machine, id) == context) return id;
  throw failure{hipErrorInvalidContext};
}

void push(int device) {
  context_stack& pushed = pushed_contexts();
  require(pushed.depth < context_stack::most, hipErrorOutOfMemory);
  pushed.devices[pushed.depth++] = device;
}

void pop() noexcept {
  context_stack& pushed = pushed_contexts();
  if (pushed.depth != 0) --pushed.depth;
}

void make_current(runtime& machine, int device) {
  machine.device(device).used = true;
  current_device() = device;
}

hipError_t not_supported(const char* function) {
  return call(function, [](runtime&) { return hipErrorNotSupported; });
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipCtxCreate(hipCtx_t* context, unsigned int /*flags*/, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(context != nullptr && machine.has_device(device));
    push(device);
    *context = context_of(machine, device);
    return hipSuccess;
  });
}

hipError_t hipCtxDestroy(hipCtx_t context) {
  return call(__func__, [&](runtime& machine) {
    require(context != nullptr);
    const int device = device_of(machine, context);
    const context_stack& pushed = pushed_contexts();
    if (pushed.depth != 0 && pushed.devices[pushed.depth - 1] == device) pop();
    return hipSuccess;
  });
}

hipError_t hipCtxPushCurrent(hipCtx_t context) {
  return call(__func__, [&](runtime& machine) {
    const int device = device_of(machine, context);
    push(device);
    make_current(machine, device);
    return hipSuccess;
  });
}

hipError_t hipCtxPopCurrent(hipCtx_t* context) {
  return call(__func__, [&](runtime& machine) {
    const context_stack& pushed = pushed_contexts();
    require(pushed.depth != 0, hipErrorInvalidContext);
    if (context != nullptr) *context = context_of(machine, pushed.devices[pushed.depth - 1]);
    pop();
    return hipSuccess;
  });
}

hipError_t hipCtxSetCurrent(hipCtx_t context) {
  return call(__func__, [&](runtime& machine) {
    if (context == nullptr) {
      pop();
      return hipSuccess;
    }
    const int device = device_of(machine, context);
    pop();
    push(device);
    make_current(machine, device);
    return hipSuccess;
  });
}

hipError_t hipCtxGetCurrent(hipCtx_t* context) {
  return call(__func__, [&](runtime& machine) {
    require(context != nullptr);
    *context = context_of(machine, current_device());
    return hipSuccess;
  });
}

hipError_t hipCtxGetDevice(hipDevice_t* device) {
  return call(__func__, [&](runtime&) {
    require(device != nullptr);
    *device = current_device();
    return hipSuccess;
  });
}

hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* config) {
  return call(__func__, [&](runtime&) {
    require(config != nullptr);
    *config = hipSharedMemBankSizeFourByte;
    return hipSuccess;
  });
}

hipError_t hipCtxEnablePeerAccess(hipCtx_t /*peer*/, unsigned int /*flags*/) {
  return call(__func__, [](runtime&) { return hipSuccess; });
}

hipError_t hipCtxDisablePeerAccess(hipCtx_t /*peer*/) {
  return call(__func__, [](runtime&) { return hipSuccess; });
}

hipError_t get_api_version(hipCtx_t /*context*/, void* /*version*/) {
  return not_supported("hipCtxGetApiVersion");
}
hipError_t hipCtxGetCacheConfig(hipFuncCache_t* /*config*/) { return not_supported(__func__); }
hipError_t hipCtxSetCacheConfig(hipFuncCache_t /*config*/) { return not_supported(__func__); }
hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig /*config*/) {
  return not_supported(__func__);
}
hipError_t hipCtxSynchronize() { return not_supported(__func__); }
hipError_t hipCtxGetFlags(unsigned int* /*flags*/) { return not_supported(__func__); }

hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* context, hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(machine.has_device(device), hipErrorInvalidDevice);
    require(context != nullptr);
    *context = context_of(machine, device);
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) {
  return call(__func__, [&](runtime& machine) {
    require(machine.has_device(device), hipErrorInvalidDevice);
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxReset(hipDevice_t /*device*/) {
  return call(__func__, [](runtime&) { return hipSuccess; });
}

hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned int /*flags*/) {
  return call(__func__, [&](runtime& machine) {
    require(machine.has_device(device), hipErrorInvalidDevice);
    return hipErrorContextAlreadyInUse;
  });
}
