// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <hipvmm/core/device.hpp>
#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// Memory of one device straight from hipMalloc: the plainest resource, for what lives long and as
/// a baseline. Holds nothing itself. Two of one device are equal.
/// Cost: hipMalloc and hipFree take tens of microseconds each, and hipFree waits for the device.
/// Where there are more devices, the caller waits before hipFree:
/// - deallocate() for its stream, which may be a peer's, or, where that fails, for all devices;
/// - deallocate_sync() for all that reach the memory. Where that fails the error handler is told,
///   and a thread of the library waits and frees.
class hip_resource final : public memory_resource {
 public:
  /// Throws: std::invalid_argument when there is no such device.
  explicit hip_resource(device_ref device);

  [[nodiscard]] device_ref device() const noexcept { return device_; }

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
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
