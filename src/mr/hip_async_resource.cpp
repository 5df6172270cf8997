// SPDX-License-Identifier: MIT
#include <hipvmm/mr/hip_async_resource.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"

namespace hipvmm::mr {
namespace {

std::size_t attribute(hipMemPool_t pool, hipMemPoolAttr which) {
  std::uint64_t value = 0;
  detail::check(hipMemPoolGetAttribute(pool, which, &value), "hipMemPoolGetAttribute");
  return value;
}

}  // namespace

hip_async_resource::owned_pool::owned_pool(device_ref device) {
  if (!device.supports_memory_pools())
    throw unsupported{
        "device " + std::to_string(device.ordinal()) +
        " offers no stream-ordered pools (hipMallocAsync); ROCm has them from 6.2 on. "
        "Use another resource"};
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.handleTypes = hipMemHandleTypeNone;
  properties.location = {hipMemLocationTypeDevice, device.ordinal()};
  detail::check(hipMemPoolCreate(&value, &properties), "hipMemPoolCreate");
}

hip_async_resource::owned_pool::~owned_pool() {
  detail::report(hipMemPoolDestroy(value), "hipMemPoolDestroy");
}

hip_async_resource::hip_async_resource(device_ref device, std::size_t release_threshold)
    : pool_{device}, sync_stream_{device} {
  std::uint64_t threshold = release_threshold;
  detail::check(hipMemPoolSetAttribute(pool_.value, hipMemPoolAttrReleaseThreshold, &threshold),
                "hipMemPoolSetAttribute");
}

hip_async_resource::~hip_async_resource() = default;

hip_async_resource::pool_statistics hip_async_resource::statistics() const {
  return {attribute(pool_.value, hipMemPoolAttrReservedMemCurrent),
          attribute(pool_.value, hipMemPoolAttrReservedMemHigh),
          attribute(pool_.value, hipMemPoolAttrUsedMemCurrent),
          attribute(pool_.value, hipMemPoolAttrUsedMemHigh)};
}

void* hip_async_resource::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  void* pointer = nullptr;
  detail::check_resources(hipMallocFromPoolAsync(&pointer, bytes, pool_.value, stream.get()),
                          "hipMallocFromPoolAsync", device(), bytes);
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0) return pointer;
  do_deallocate(stream, pointer, bytes, alignment);
  throw std::invalid_argument{
      "hip_async_resource: hipMallocFromPoolAsync gave an address that is no multiple of the "
      "alignment " +
      std::to_string(alignment) + "; ask for at most " + std::to_string(default_alignment)};
}

void hip_async_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t,
                                       std::size_t) noexcept {
  detail::report(hipFreeAsync(pointer, stream.get()), "hipFreeAsync");
}

void* hip_async_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  void* const pointer = do_allocate(sync_stream_, bytes, alignment);
  try {
    sync_stream_.synchronize();
  } catch (...) {
    do_deallocate(sync_stream_, pointer, bytes, alignment);
    throw;
  }
  return pointer;
}

void hip_async_resource::do_deallocate_sync(void* pointer, std::size_t bytes,
                                            std::size_t alignment) noexcept {
  do_deallocate(sync_stream_, pointer, bytes, alignment);
}

}  // namespace hipvmm::mr
