// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace hipvmm {

/// Names a device by its HIP ordinal. Does not own anything and is not checked when made;
/// functions that use one throw std::invalid_argument naming the ordinal when there is no such
/// device.
class device_ref {
 public:
  explicit constexpr device_ref(int ordinal) noexcept : ordinal_{ordinal} {}

  /// The calling thread's current device.
  /// Throws: unsupported when there is no HIP device, with how to run without one.
  [[nodiscard]] static device_ref current();

  [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }

  [[nodiscard]] std::string name() const;
  /// Total memory of the device in bytes.
  [[nodiscard]] std::size_t total_memory() const;
  /// Free memory of the device in bytes at this moment, as hipMemGetInfo reports it: what
  /// chunk_cache::shared() keeps is not free.
  [[nodiscard]] std::size_t free_memory() const;
  /// Tells whether this device can reach `peer`'s memory; a device reaches itself.
  [[nodiscard]] bool can_access_peer(device_ref peer) const;
  /// Lets work of this device use what hipMalloc gives on `peer`, all of it, now and later: HIP
  /// knows this right for the whole process only. For good: taking it back could disturb others who
  /// rely on it. Mapped chunks have rights of their own. Throws: hip_error without a link.
  void enable_peer_access(device_ref peer) const;
  /// Tells whether the runtime says that it offers virtual memory management on the device; true
  /// where it cannot say (HIP before 5.3).
  [[nodiscard]] bool supports_virtual_memory() const;
  /// Tells whether the runtime says that it offers stream-ordered pools (hipMallocAsync).
  [[nodiscard]] bool supports_memory_pools() const;
  /// Tells whether hipMallocManaged gives memory that moves; where it does not, AMD gives pinned
  /// memory of the host.
  [[nodiscard]] bool supports_managed_memory() const;
  /// Tells whether the host may use managed memory while the device does, and it can be moved and
  /// advised about (AMD: HMM).
  [[nodiscard]] bool supports_concurrent_managed_access() const;
  /// Tells whether the device reaches all memory of the host, as malloc gives it (AMD: XNACK on).
  [[nodiscard]] bool supports_pageable_access() const;
  /// Waits until all work submitted to the device has finished.
  void synchronize() const;

  friend constexpr bool operator==(device_ref a, device_ref b) noexcept {
    return a.ordinal_ == b.ordinal_;
  }
  friend constexpr bool operator!=(device_ref a, device_ref b) noexcept { return !(a == b); }
  friend constexpr bool operator<(device_ref a, device_ref b) noexcept {
    return a.ordinal_ < b.ordinal_;
  }

 private:
  int ordinal_;
};

/// Number of HIP devices; zero when there is none.
/// Throws: hip_error when the runtime itself failed.
[[nodiscard]] int device_count();

/// Free and total memory in bytes, in this order, of `device` or of the current one, at this moment
/// and as hipMemGetInfo reports them.
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory();
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory(device_ref device);

/// `percent` of the free memory of `device` or of the current one, in bytes, rounded down to a
/// multiple of 256: to size a pool by. Throws: std::invalid_argument unless 0 <= `percent` <= 100.
[[nodiscard]] std::size_t percent_of_free_device_memory(int percent);
[[nodiscard]] std::size_t percent_of_free_device_memory(device_ref device, int percent);

/// Throws std::invalid_argument naming the ordinal and the count unless `device` exists;
/// unsupported when there is no HIP device at all.
void require_device(device_ref device);

/// Makes a device current for the calling thread and restores the previous one when destroyed.
/// Must be destroyed by the thread that made it.
class scoped_device {
 public:
  explicit scoped_device(device_ref device);
  ~scoped_device();
  scoped_device(const scoped_device&) = delete;
  scoped_device& operator=(const scoped_device&) = delete;

 private:
  device_ref previous_;
  bool changed_;
};

}  // namespace hipvmm
