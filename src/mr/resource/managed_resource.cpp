// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/managed_resource.hpp>

#include <hip/hip_runtime_api.h>

#include <stdexcept>

#include <hipvmm/runtime/device_allocation.hpp>
#include "core/check.hpp"
#include "mr/resource/host_memory.hpp"
#include "mr/resource/misaligned.hpp"
#include "region/retirement.hpp"

namespace hipvmm::mr {

managed_resource::managed_resource(device_ref device, attachment first) : managed_resource{first} {
  require_device(device);
  device_ = device;
}

managed_resource::managed_resource(attachment first) : first_{first} {
  if (first == attachment::single)
    throw std::invalid_argument{
        "managed_resource: memory cannot begin attached to a single stream; begin with "
        "attachment::host and call attach_async"};
}

void managed_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                     std::size_t) noexcept {
  detail::free_behind(stream, pointer, bytes, [=, this] {
    device_allocation{pointer, device_to_use(), bytes};
  });
}

void* managed_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  keep_to_process();
  const device_ref device = device_to_use();
  const scoped_device scope{device};
  detail::require_possible(bytes, "hipMallocManaged");
  const unsigned flags = first_ == attachment::host ? hipMemAttachHost : hipMemAttachGlobal;
  device_allocation memory = detail::acquire_with_retry([&] {
    void* pointer = nullptr;
    detail::check_host_memory(hipMallocManaged(&pointer, bytes, flags), "hipMallocManaged", bytes);
    return device_allocation{pointer, device, bytes};
  });
  if (!detail::is_aligned(memory.get(), alignment))
    detail::throw_misaligned("managed_resource", "hipMallocManaged", alignment);
  return memory.release();
}

void managed_resource::do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept {
  detail::free_behind(detail::wait_before_hip_free, pointer, [=, this] {
    device_allocation{pointer, device_to_use(), bytes};
  });
}

bool managed_resource::do_is_equal(const memory_resource& other) const noexcept {
  return dynamic_cast<const managed_resource*>(&other) != nullptr;
}

}  // namespace hipvmm::mr
