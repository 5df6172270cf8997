// SPDX-License-Identifier: MIT
#include <cstring>

#include "call.hpp"
#include "enum_value.hpp"
#include "shared_file.hpp"
#include "thread_state.hpp"

using namespace hipvmm::host_provider;

hipError_t hipMemExportToShareableHandle(void* shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type,
                                         unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    const profile& rules = machine.rules();
    require(flags == 0 && (shareable != nullptr || rules.null_export == bad_pointer::followed));
    require(rules.sharing == hipSuccess, rules.sharing);
    const std::shared_ptr<chunk> memory = machine.chunks().find(from_handle(handle));
    require(value_of(type) == hipMemHandleTypePosixFileDescriptor &&
            value_of(memory->properties().requestedHandleType) ==
                hipMemHandleTypePosixFileDescriptor);
    if (shareable == nullptr) {
      throw crash{"writes the descriptor through a null pointer",
                  "ROCm/clr 6.2 to 6.4, hip_vm.cpp"};
    }
    *static_cast<int*>(shareable) = duplicate(memory->file()).release();
    return hipSuccess;
  });
}

hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t* handle, void* os_handle,
                                           hipMemAllocationHandleType type) {
  return call(__func__, [&](runtime& machine) {
    const profile& rules = machine.rules();
    require(handle != nullptr);
    require(rules.sharing == hipSuccess, rules.sharing);
    require(value_of(type) == hipMemHandleTypePosixFileDescriptor ||
            rules.import_type == extra_type::taken);
    const int given = descriptor_from(os_handle, rules.chunk_import, rules.zero);
    const shared_file found = shared_file::identify(
        given, chunk_file, machine.configuration().machine_devices, rules.foreign_descriptor);
    require(found.bytes != 0 && found.bytes % machine.configuration().granularity == 0);
    const int owner = machine.device_at(found.place);
    require(machine.has_device(owner), hipErrorInvalidDevice);
    const bool tells_owner = rules.chunk_device == imported_device::exporter;
    hipMemAllocationProp properties = pinned_on(tells_owner ? owner : current_device());
    std::memcpy(&properties.requestedHandleType, &type, sizeof type);  // may be no enumerator
    *handle = to_handle<hipMemGenericAllocationHandle_t>(machine.chunks().add(
        std::make_shared<chunk>(duplicate(given), properties, owner, found.bytes)));
    return hipSuccess;
  });
}
