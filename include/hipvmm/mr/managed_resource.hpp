// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/managed_memory.hpp>
#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// Memory that HIP moves between the host and devices (hipMallocManaged): the host and all devices
/// use it, at the same time where device_ref::supports_concurrent_managed_access() says so, and
/// core/managed_memory.hpp moves it ahead and advises. Two are equal. It belongs to no device.
/// Cost: the caller waits, deallocate() for its stream and deallocate_sync() for all devices, and
/// then for hipFree, which waits for one device or all. Where a device cannot be waited for, and in
/// a stream that is being captured, the memory stays allocated and the error handler is told.
class managed_resource final : public memory_resource {
 public:
  /// `device` is current while HIP allocates. Blocks begin attached to `first`: to all devices, or
  /// to the host alone. Throws: std::invalid_argument when there is no such device, or for
  /// attachment::single, which needs a stream (attach_async).
  explicit managed_resource(device_ref device, attachment first = attachment::global);

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;
  [[nodiscard]] bool do_is_host_accessible() const noexcept override { return true; }

  device_ref device_;
  attachment first_;
};

}  // namespace hipvmm::mr
