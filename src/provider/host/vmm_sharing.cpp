// SPDX-License-Identifier: MIT
#include "call.hpp"
#include "enum_value.hpp"
#include "shared_file.hpp"

using namespace hipvmm::host_provider;

hipError_t hipMemExportToShareableHandle(void* shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type,
                                         unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    require(shareable != nullptr && flags == 0);
    const std::shared_ptr<chunk> memory = machine.chunks().find(from_handle(handle));
    require(value_of(type) == hipMemHandleTypePosixFileDescriptor &&
            memory->properties().requestedHandleType == hipMemHandleTypePosixFileDescriptor);
    *static_cast<int*>(shareable) = duplicate(memory->file()).release();
    return hipSuccess;
  });
}

hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t* handle, void* os_handle,
                                           hipMemAllocationHandleType type) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr);
    require(value_of(type) == hipMemHandleTypePosixFileDescriptor);
    const int given = descriptor_from(os_handle);
    const shared_file found = shared_file::identify(given, chunk_file, machine.device_count());
    require(found.bytes != 0 && found.bytes % machine.configuration().granularity == 0);
    hipMemAllocationProp properties = pinned_on(found.device);
    properties.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
    *handle = to_handle<hipMemGenericAllocationHandle_t>(
        machine.chunks().add(std::make_shared<chunk>(duplicate(given), properties, found.bytes)));
    return hipSuccess;
  });
}
