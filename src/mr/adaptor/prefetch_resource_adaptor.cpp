// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/prefetch_resource_adaptor.hpp>

#include <optional>
#include <stdexcept>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {
namespace {

device_ref prefetch_target(const memory_resource& resource) {
  const std::optional<device_ref> device = resource.device();
  return device ? *device : device_ref::current();
}

}  // namespace

prefetch_resource_adaptor::prefetch_resource_adaptor(memory_resource* upstream)
    : resource_adaptor{"prefetch_resource_adaptor", upstream} {
  if (!upstream->is_host_accessible())
    throw std::invalid_argument{
        "prefetch_resource_adaptor: the upstream gives memory that the host cannot use, so it is "
        "not managed and cannot move; use a managed_resource as the upstream"};
}

void* prefetch_resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes,
                                             std::size_t alignment) {
  const device_ref target = prefetch_target(*this);
  void* const pointer = resource_adaptor::do_allocate(stream, bytes, alignment);
  try {
    prefetch_async(stream, pointer, bytes, target);
  } catch (...) {
    resource_adaptor::do_deallocate(stream, pointer, bytes, alignment);
    throw;
  }
  return pointer;
}

// In a stream of its own, and done at the end: memory that every stream may use is not on its way.
void* prefetch_resource_adaptor::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  const device_ref target = prefetch_target(*this);
  const stream way{target};
  void* const pointer = resource_adaptor::do_allocate_sync(bytes, alignment);
  try {
    prefetch_async(way, pointer, bytes, target);
    way.synchronize();
  } catch (...) {
    resource_adaptor::do_deallocate_sync(pointer, bytes, alignment);
    throw;
  }
  return pointer;
}

}  // namespace hipvmm::mr
