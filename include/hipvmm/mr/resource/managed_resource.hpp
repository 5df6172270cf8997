// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/managed_memory.hpp>

namespace hipvmm::mr {

/// Allocates managed memory (hipMallocManaged), which HIP migrates between the host and devices,
/// and which belongs to no device. Two are equal. See also runtime/managed_memory.hpp.
/// - The host and all devices may use it; concurrently if
///   device_ref::supports_concurrent_managed_access() returns true.
/// Cost: deallocate() waits for its stream and deallocate_sync() for all devices; then both wait
/// for hipFree, which waits for one device or all. Failures are those of new_delete_resource.
class managed_resource final : public memory_resource {
 public:
  /// HIP allocates on the calling thread's current device, as RMM's managed_memory_resource does,
  /// and attaches blocks to `first`: to all devices, or to the host alone.
  /// Throws: std::invalid_argument for attachment::single, which needs a stream (attach_async).
  explicit managed_resource(attachment first = attachment::global);
  /// Deprecated, until 0.4.0: makes `device` current while HIP allocates.
  /// Throws: std::invalid_argument when there is no such device; as above.
  [[deprecated(
      "use managed_resource{}, and scoped_device if the current device "
      "matters")]] explicit managed_resource(device_ref device,
                                             attachment first = attachment::global);

 private:
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;
  [[nodiscard]] bool do_is_host_accessible() const noexcept override { return true; }

  [[nodiscard]] device_ref device_to_use() const {
    return device_ ? *device_ : device_ref::current();
  }

  std::optional<device_ref> device_;
  attachment first_;
};

}  // namespace hipvmm::mr
