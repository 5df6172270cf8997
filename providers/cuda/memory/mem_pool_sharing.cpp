// SPDX-License-Identifier: MIT
#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

void require_posix(const hipMemAllocationHandleType& type) {
  require(value_of(type) == hipMemHandleTypePosixFileDescriptor);
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMemPoolExportToShareableHandle(void* shareable, hipMemPool_t pool,
                                             hipMemAllocationHandleType type, unsigned int flags) {
  return call([&](driver&) {
    require(shareable != nullptr && pool != nullptr && flags == 0);
    require_posix(type);
    int descriptor = -1;
    check(cuMemPoolExportToShareableHandle(&descriptor, to_cuda(pool),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close_on_exec(descriptor);
    *static_cast<int*>(shareable) = descriptor;
    return hipSuccess;
  });
}

hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t* pool, void* os_handle,
                                               hipMemAllocationHandleType type,
                                               unsigned int flags) {
  return call([&](driver&) {
    require(pool != nullptr && flags == 0);
    require_posix(type);
    CUmemoryPool made = nullptr;
    check(cuMemPoolImportFromShareableHandle(&made, descriptor_from(os_handle),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    *pool = to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData* data, void* pointer) {
  return call([&](driver&) {
    require(data != nullptr && pointer != nullptr);
    CUmemPoolPtrExportData made{};
    check(cuMemPoolExportPointer(&made, to_cuda(pointer)));
    *data = same_bytes<hipMemPoolPtrExportData>(made);
    return hipSuccess;
  });
}

hipError_t hipMemPoolImportPointer(void** pointer, hipMemPool_t pool,
                                   hipMemPoolPtrExportData* data) {
  return call([&](driver&) {
    require(pointer != nullptr && pool != nullptr && data != nullptr);
    auto given = same_bytes<CUmemPoolPtrExportData>(*data);
    CUdeviceptr imported = 0;
    check(cuMemPoolImportPointer(&imported, to_cuda(pool), &given));
    *pointer = to_pointer(imported);
    return hipSuccess;
  });
}
