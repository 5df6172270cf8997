// SPDX-License-Identifier: MIT
#include "base/call.hpp"

// Declared by its symbol, because the type of the second parameter differs between headers.
extern "C" [[gnu::visibility("default")]] hipError_t get_api_version(
    hipCtx_t context, void* version) __asm__("hipCtxGetApiVersion");

// HIP's contexts are the devices, each of which has one: CUDA's primary contexts here.
namespace hipvmm::cuda_provider {
namespace {

hipCtx_t context_to_hip(CUcontext context) noexcept { return reinterpret_cast<hipCtx_t>(context); }

/// Throws "invalid context" if it is no device's primary context.
CUcontext context_to_cuda(driver& machine, hipCtx_t context) {
  const auto found = reinterpret_cast<CUcontext>(context);
  require(found != nullptr && machine.owner_of(found) >= 0, hipErrorInvalidContext);
  return found;
}

hipError_t not_supported() {
  return call_bare([] {
    driver_with_device();
    return hipErrorNotSupported;
  });
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipCtxCreate(hipCtx_t* context, unsigned int /*flags*/, hipDevice_t device) {
  return call_bare([&] {
    driver& machine = driver_with_device();
    require(context != nullptr && machine.has_device(device));
    const CUcontext made = machine.primary(device);
    check(cuCtxPushCurrent(made));
    *context = context_to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipCtxDestroy(hipCtx_t context) {
  return call_bare([&] {
    driver& machine = driver_with_device();
    require(context != nullptr);
    const CUcontext leaving = context_to_cuda(machine, context);
    CUcontext current = nullptr;
    check(cuCtxGetCurrent(&current));
    if (current == leaving) check(cuCtxPopCurrent(&current));
    return hipSuccess;
  });
}

hipError_t hipCtxPushCurrent(hipCtx_t context) {
  return call_bare([&] {
    check(cuCtxPushCurrent(context_to_cuda(driver_with_device(), context)));
    return hipSuccess;
  });
}

hipError_t hipCtxPopCurrent(hipCtx_t* context) {
  return call_bare([&] {
    driver_with_device();
    CUcontext popped = nullptr;
    check(cuCtxPopCurrent(&popped));
    if (context != nullptr) *context = context_to_hip(popped);
    return hipSuccess;
  });
}

hipError_t hipCtxSetCurrent(hipCtx_t context) {
  return call_bare([&] {
    driver& machine = driver_with_device();
    check(cuCtxSetCurrent(context == nullptr ? nullptr : context_to_cuda(machine, context)));
    return hipSuccess;
  });
}

hipError_t hipCtxGetCurrent(hipCtx_t* context) {
  return call([&](driver& machine) {
    require(context != nullptr);
    *context = context_to_hip(machine.primary(current_device()));
    return hipSuccess;
  });
}

hipError_t hipCtxGetDevice(hipDevice_t* device) { return hipGetDevice(device); }

hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* config) {
  return hipDeviceGetSharedMemConfig(config);
}

hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned int flags) {
  return call([&](driver& machine) {
    check(cuCtxEnablePeerAccess(context_to_cuda(machine, peer), flags));
    return hipSuccess;
  });
}

hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  return call([&](driver& machine) {
    check(cuCtxDisablePeerAccess(context_to_cuda(machine, peer)));
    return hipSuccess;
  });
}

hipError_t get_api_version(hipCtx_t /*context*/, void* /*version*/) { return not_supported(); }
hipError_t hipCtxGetCacheConfig(hipFuncCache_t* /*config*/) { return not_supported(); }
hipError_t hipCtxSetCacheConfig(hipFuncCache_t /*config*/) { return not_supported(); }
hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig /*config*/) { return not_supported(); }
hipError_t hipCtxSynchronize() { return not_supported(); }
hipError_t hipCtxGetFlags(unsigned int* /*flags*/) { return not_supported(); }

hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* context, hipDevice_t device) {
  return call_bare([&] {
    driver& machine = driver_with_device();
    require(machine.has_device(device), hipErrorInvalidDevice);
    require(context != nullptr);
    *context = context_to_hip(machine.primary(device));
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) {
  return call_bare([&] {
    require(driver_with_device().has_device(device), hipErrorInvalidDevice);
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxReset(hipDevice_t /*device*/) {
  return call_bare([] {
    driver_with_device();
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned int /*flags*/) {
  return call_bare([&] {
    require(driver_with_device().has_device(device), hipErrorInvalidDevice);
    return hipErrorContextAlreadyInUse;
  });
}
