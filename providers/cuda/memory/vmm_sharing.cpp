// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "core/hip_compat.hpp"

// Headers before 7.0 lack it, later ones declare the same.
extern "C" [[gnu::visibility("default")]] hipError_t hipMemGetHandleForAddressRange(
    void* handle, hipDeviceptr_t start, size_t bytes, hipvmm::hip_compat::range_handle_type type,
    unsigned long long flags);

using namespace hipvmm::cuda_provider;

namespace {
// CU_MEM_HANDLE_TYPE_FABRIC, newer than 12.2. Its handle is 64 bytes.
constexpr auto cuda_fabric =
    static_cast<CUmemAllocationHandleType>(hipvmm::hip_compat::fabric_handle_kind);
}  // namespace

hipError_t hipMemExportToShareableHandle(void* shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type,
                                         unsigned long long flags) {
  return call_anywhere([&](driver&) {
    require(shareable != nullptr && handle != nullptr && flags == 0);
    if (value_of(type) == hipvmm::hip_compat::fabric_handle_kind) {
      check(cuMemExportToShareableHandle(shareable, to_cuda(handle), cuda_fabric, 0));
      return hipSuccess;
    }
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
    CUmemGenericAllocationHandle made = 0;
    if (value_of(type) == hipvmm::hip_compat::fabric_handle_kind) {
      require(os_handle != nullptr);
      check(cuMemImportFromShareableHandle(&made, os_handle, cuda_fabric));
      *handle = chunk_to_hip(made);
      return hipSuccess;
    }
    require(value_of(type) == hipMemHandleTypePosixFileDescriptor);
    check(cuMemImportFromShareableHandle(&made, descriptor_from(os_handle),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    *handle = chunk_to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t start, size_t bytes,
                                          hipvmm::hip_compat::range_handle_type type,
                                          unsigned long long flags) {
  return call_anywhere([&](driver&) {
    require(handle != nullptr && start != nullptr && bytes != 0);
    require(value_of(type) == hipvmm::hip_compat::dma_buf_of_range);
    int descriptor = -1;
    check(cuMemGetHandleForAddressRange(&descriptor, to_cuda(start), bytes,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags));
    close_on_exec(descriptor);
    *static_cast<int*>(handle) = descriptor;
    return hipSuccess;
  });
}
