// SPDX-License-Identifier: MIT
#include "base/call.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* pointer) {
  return call([&](driver&) {
    require(handle != nullptr && pointer != nullptr);
    CUipcMemHandle made{};
    check(cuIpcGetMemHandle(&made, to_cuda(pointer)));
    *handle = same_bytes<hipIpcMemHandle_t>(made);
    return hipSuccess;
  });
}

hipError_t hipIpcOpenMemHandle(void** pointer, hipIpcMemHandle_t handle, unsigned int flags) {
  return call([&](driver&) {
    require(pointer != nullptr && flags == hipIpcMemLazyEnablePeerAccess);
    CUdeviceptr opened = 0;
    check(cuIpcOpenMemHandle(&opened, same_bytes<CUipcMemHandle>(handle),
                             CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    *pointer = to_pointer(opened);
    return hipSuccess;
  });
}

hipError_t hipIpcCloseMemHandle(void* pointer) {
  return call([&](driver& machine) {
    require(pointer != nullptr);
    machine.wait_all();
    check(cuIpcCloseMemHandle(to_cuda(pointer)));
    return hipSuccess;
  });
}

hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* handle, hipEvent_t event) {
  return call([&](driver&) {
    require(handle != nullptr && event != nullptr);
    CUipcEventHandle made{};
    check(cuIpcGetEventHandle(&made, to_cuda(event)));
    *handle = same_bytes<hipIpcEventHandle_t>(made);
    return hipSuccess;
  });
}

hipError_t hipIpcOpenEventHandle(hipEvent_t* event, hipIpcEventHandle_t handle) {
  return call([&](driver&) {
    require(event != nullptr);
    CUevent opened = nullptr;
    check(cuIpcOpenEventHandle(&opened, same_bytes<CUipcEventHandle>(handle)));
    *event = to_hip(opened);
    return hipSuccess;
  });
}
