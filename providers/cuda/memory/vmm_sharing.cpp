// SPDX-License-Identifier: MIT
#include "base/call.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipMemExportToShareableHandle(void* shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type,
                                         unsigned long long flags) {
  return call_anywhere([&](driver&) {
    require(shareable != nullptr && handle != nullptr && flags == 0);
    require(value_of(type) == hipMemHandleTypePosixFileDescriptor);
    int descriptor = -1;
    check(cuMemExportToShareableHandle(&descriptor, to_cuda(handle),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close_on_exec(descriptor);
    *static_cast<int*>(shareable) = descriptor;
    return hipSuccess;
  });
}

hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t* handle, void* os_handle,
                                           hipMemAllocationHandleType type) {
  return call_anywhere([&](driver&) {
    require(handle != nullptr);
    require(value_of(type) == hipMemHandleTypePosixFileDescriptor);
    CUmemGenericAllocationHandle made = 0;
    check(cuMemImportFromShareableHandle(&made, descriptor_from(os_handle),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    *handle = chunk_to_hip(made);
    return hipSuccess;
  });
}
