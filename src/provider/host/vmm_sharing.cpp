// SPDX-License-Identifier: MIT
#include <fcntl.h>

#include <cerrno>
#include <cstdint>

#include "call.hpp"
#include "enum_value.hpp"

namespace hipvmm::host_provider {
namespace {

// ROCm up to 7.0 passes a pointer to the descriptor, newer releases and CUDA its value. No pointer
// is this small, and no descriptor this large: the kernel's own limit is 2^20 unless raised.
constexpr std::uintptr_t descriptor_values_end = std::uintptr_t{65536} * 16;

int descriptor_from(void* os_handle) {
  require(os_handle != nullptr);
  const auto value = reinterpret_cast<std::uintptr_t>(os_handle);
  return value < descriptor_values_end ? static_cast<int>(value) : *static_cast<int*>(os_handle);
}

descriptor duplicate(int file) {
  descriptor copy{fcntl(file, F_DUPFD_CLOEXEC, 0)};
  require(copy.get() >= 0, error_of_errno(errno));
  return copy;
}

}  // namespace
}  // namespace hipvmm::host_provider

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
    const shared_file found =
        shared_file::identify(given, machine.device_count(), machine.configuration().granularity);
    hipMemAllocationProp properties = pinned_on(found.device);
    properties.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
    *handle = to_handle<hipMemGenericAllocationHandle_t>(
        machine.chunks().add(std::make_shared<chunk>(duplicate(given), properties, found.bytes)));
    return hipSuccess;
  });
}
