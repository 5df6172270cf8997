// SPDX-License-Identifier: MIT
#include "base/enum_value.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/shared_file.hpp"
#include "pool/mem_pool_set.hpp"

namespace hipvmm::host_provider {
namespace {

// The file is sparse, so its length costs nothing: room for more blocks than a process can request.
constexpr std::size_t pool_file_bytes = std::size_t{1} << 60U;

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* wanted) {
  return call(__func__, [&](runtime& machine) {
    require(pool != nullptr && wanted != nullptr);
    require(value_of(wanted->allocType) == hipMemAllocationTypePinned);
    require(value_of(wanted->location.type) == hipMemLocationTypeDevice);
    const int id = wanted->location.id;
    require(machine.has_device(id));
    machine.captures().refuse_unsafe();
    descriptor file;
    switch (value_of(wanted->handleTypes)) {
      case hipMemHandleTypeNone:
        break;
      case hipMemHandleTypePosixFileDescriptor:
        file = shared_file::create(pool_file, machine.places().place_of(id), pool_file_bytes);
        break;
      default:
        return hipErrorNotSupported;
    }
    const bool has_limit = machine.rules().max_size != size_limit::unknown;
    const std::uint64_t most = has_limit ? hipvmm::hip_compat::max_pool_bytes(*wanted) : 0;
    *pool = machine.pools().add(pool_origin::created, id, most, std::move(file));
    return hipSuccess;
  });
}

hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  return call(__func__, [&](runtime& machine) {
    machine.pools().destroy(pool);
    return hipSuccess;
  });
}

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes_to_keep) {
  return call(__func__, [&](runtime& machine) {
    machine.pools().find(pool)->release(bytes_to_keep);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
  return call(__func__, [&](runtime& machine) {
    require(pool != nullptr);
    require(machine.has_device(device), hipErrorInvalidDevice);
    *pool = machine.pools().default_of(device);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int device) {
  return call(__func__, [&](runtime& machine) {
    require(pool != nullptr && machine.has_device(device));
    *pool = machine.pools().current_of(device);
    return hipSuccess;
  });
}

hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  return call(__func__, [&](runtime& machine) {
    require(machine.has_device(device));
    const std::shared_ptr<mem_pool> wanted = machine.pools().find(pool);
    require(wanted->device() == device, machine.rules().pool_of_another_device);
    require(wanted->origin() != pool_origin::imported);
    machine.captures().refuse_unsafe();
    machine.pools().make_current(device, pool);
    return hipSuccess;
  });
}
