// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/prefetch_resource_adaptor.hpp>

#include <optional>
#include <stdexcept>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

prefetch_resource_adaptor::prefetch_resource_adaptor(memory_resource* upstream)
    : resource_adaptor{"prefetch_resource_adaptor", upstream} {
  if (!upstream->is_host_accessible())
    throw std::invalid_argument{
        "prefetch_resource_adaptor: the upstream gives memory that the host cannot use, so it is "
        "not managed and cannot move; use a managed_resource as the upstream"};
}

// Without a stream, waits in one of its own: memory that every stream may use must be in place.
void* prefetch_resource_adaptor::do_allocate_any(const request& wanted) {
  const std::optional<device_ref> owner = device();
  const device_ref target = owner ? *owner : device_ref::current();
  const std::optional<stream> own = wanted.stream ? std::nullopt : std::optional<stream>{target};
  void* const pointer = resource_adaptor::do_allocate_any(wanted);
  try {
    prefetch_async(own ? *own : *wanted.stream, pointer, wanted.bytes, target);
    if (own) own->synchronize();
  } catch (...) {
    resource_adaptor::do_deallocate_any(pointer, wanted);
    throw;
  }
  return pointer;
}

}  // namespace hipvmm::mr
