// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::mr {

/// Allocates by hipMalloc, without a cache. Two resources of one device are equal.
/// Cost: hipMalloc and hipFree take tens of microseconds each, and hipFree waits for the device.
/// With more than one device, the caller waits before hipFree:
/// - deallocate() waits for its stream, which may be a peer's, or, if that fails, for all devices;
/// - deallocate_sync() waits for all devices that reach the memory.
/// If the last wait fails, a thread of the library waits and frees, and the failure is reported.
class hip_resource final : public memory_resource {
 public:
  /// Throws: std::invalid_argument when there is no such device.
  explicit hip_resource(device_ref device);

  [[nodiscard]] device_ref device() const noexcept { return device_; }

 private:
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override { return device_; }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;

  device_ref device_;
};

}  // namespace hipvmm::mr
