// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace hipvmm {

/// Names a device by its HIP ordinal. It owns nothing, and construction does not check the ordinal.
/// Functions that use a device that does not exist throw std::invalid_argument, which names the
/// ordinal.
class device_ref {
 public:
  explicit constexpr device_ref(int ordinal) noexcept : ordinal_{ordinal} {}

  /// The calling thread's current device.
  /// Throws: unsupported when there is no HIP device; the message says how to run without one.
  [[nodiscard]] static device_ref current();

  [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }

  [[nodiscard]] std::string name() const;
  /// Total memory of the device in bytes, as HIP reports it. On an APU that may be only what the
  /// firmware set aside: less than free_memory().
  [[nodiscard]] std::size_t total_memory() const;
  /// Free memory of the device in bytes at this moment, as hipMemGetInfo reports it. Memory that
  /// chunk_cache::shared() keeps is not free.
  [[nodiscard]] std::size_t free_memory() const;
  /// Returns whether this device can access `peer`'s memory. A device can access its own.
  [[nodiscard]] bool can_access_peer(device_ref peer) const;
  /// Grants this device access to all memory that hipMalloc allocates on `peer`, now and later.
  /// - HIP has this right for the whole process only.
  /// - It is permanent: revoking it could disturb other code that relies on it.
  /// - Mapped chunks have rights of their own.
  /// Throws: hip_error without a link.
  void enable_peer_access(device_ref peer) const;
  /// Returns whether the runtime reports virtual memory management on the device. Also true where
  /// the runtime cannot report it (HIP before 5.3).
  [[nodiscard]] bool supports_virtual_memory() const;
  /// Returns whether the runtime reports stream-ordered pools (hipMallocAsync).
  [[nodiscard]] bool supports_memory_pools() const;
  /// Returns whether memory of hipMallocManaged migrates. Where it does not, AMD allocates pinned
  /// host memory instead.
  [[nodiscard]] bool supports_managed_memory() const;
  /// Returns whether host and device may use managed memory at the same time, and it can be moved
  /// and advised about (AMD: HMM).
  [[nodiscard]] bool supports_concurrent_managed_access() const;
  /// Returns whether the device can access all host memory, as malloc allocates it (AMD: XNACK on).
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

/// Free and total memory in bytes, in this order, of `device` or of the current device, at this
/// moment and as hipMemGetInfo reports them.
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory();
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory(device_ref device);

/// Returns `percent` of the free memory of `device` or of the current device, to size a pool. In
/// bytes, rounded down to a multiple of 256.
/// Throws: std::invalid_argument unless 0 <= `percent` <= 100.
[[nodiscard]] std::size_t percent_of_free_device_memory(int percent);
[[nodiscard]] std::size_t percent_of_free_device_memory(device_ref device, int percent);

/// Checks that `device` exists.
/// Throws: std::invalid_argument, which names the ordinal and the count, unless `device` exists;
/// unsupported when there is no HIP device at all.
void require_device(device_ref device);

/// Makes a device current for the calling thread; the destructor restores the previous one.
/// Pre: the thread that constructed it destroys it.
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
