// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::mr {

/// Allocates ordinary host memory by operator new, for devices that reach all of it: APUs, Grace
/// Hopper, AMD with XNACK; also more than the device has. The system migrates pages as it chooses;
/// runtime/managed_memory.hpp has advice. All are equal, and equal to a new_delete_resource.
/// Cost: deallocate() waits for its stream, deallocate_sync() for all devices that reach it.
/// Failures are those of new_delete_resource.
class system_resource final : public new_delete_resource {
 public:
  /// Throws: std::invalid_argument without such a device; unsupported unless
  /// supports_pageable_access().
  explicit system_resource(device_ref device);

 private:
  [[nodiscard]] bool do_is_device_accessible() const noexcept override { return true; }
};

/// A system_resource in whole pages that leaves `headroom` bytes of the device free for allocations
/// that need the device's own memory. As much of each block prefers the device as that allows; the
/// rest prefers the host. Two of one device and headroom are equal.
class sam_headroom_resource final : public memory_resource {
 public:
  /// Throws: as system_resource.
  sam_headroom_resource(device_ref device, std::size_t headroom);

  [[nodiscard]] std::size_t headroom() const noexcept { return headroom_; }

 private:
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;
  [[nodiscard]] bool do_is_host_accessible() const noexcept override { return true; }

  system_resource upstream_;
  device_ref device_;
  std::size_t headroom_;
};

}  // namespace hipvmm::mr
