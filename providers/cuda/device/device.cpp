// SPDX-License-Identifier: MIT
#include "base/call.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipInit(unsigned int flags) {
  return call_bare([&] {
    driver_with_device();
    require(flags == 0);
    return hipSuccess;
  });
}

hipError_t hipDriverGetVersion(int* version) {
  return call_bare([&] {
    require(version != nullptr);
    check(cuDriverGetVersion(version));
    return hipSuccess;
  });
}

hipError_t hipRuntimeGetVersion(int* version) {
  return call_bare([&] {
    require(version != nullptr);
    // CUDA's number, as in NVIDIA's own HIP: programs distinguish the platforms by it.
    *version = CUDA_VERSION;
    return hipSuccess;
  });
}

hipError_t hipGetDeviceCount(int* count) {
  return call_bare([&] {
    require(count != nullptr);
    *count = ready_driver().device_count();
    return *count == 0 ? hipErrorNoDevice : hipSuccess;
  });
}

hipError_t hipGetDevice(int* device) {
  return call_bare([&] {
    driver_with_device();
    require(device != nullptr);
    *device = current_device();
    return hipSuccess;
  });
}

hipError_t hipSetDevice(int device) {
  return call_bare([&] {
    require(driver_with_device().has_device(device), hipErrorInvalidDevice);
    set_current_device(device);
    return hipSuccess;
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(device != nullptr);
    require(machine.has_device(ordinal), hipErrorInvalidDevice);
    *device = ordinal;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(name != nullptr && length > 0);
    check(cuDeviceGetName(name, length, machine.device(device)));
    return hipSuccess;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(bytes != nullptr);
    check(cuDeviceTotalMem(bytes, machine.device(device)));
    return hipSuccess;
  });
}

hipError_t hipDeviceSynchronize() {
  return call([](driver&) {
    check(cuCtxSynchronize());
    return hipSuccess;
  });
}

hipError_t hipDeviceReset() {
  return call_bare([] {
    driver& machine = driver_with_device();
    const int device = current_device();
    CUcontext current = nullptr;
    check(cuCtxGetCurrent(&current));
    const bool is_current = current == machine.primary(device);
    {
      const pushed_context scope{machine.primary(device)};
      machine.wait_all();
    }
    if (is_current) check(cuCtxSetCurrent(nullptr));
    machine.reset(device);
    if (is_current) check(cuCtxSetCurrent(machine.primary(device)));
    return hipSuccess;
  });
}

hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&](driver&) {
    check(cuCtxGetStreamPriorityRange(least, greatest));
    return hipSuccess;
  });
}
