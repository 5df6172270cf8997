// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <hipvmm/version.hpp>

namespace hipvmm::detail {

/// Only the library of the same version defines it, so that other programs do not link or load.
extern const char HIPVMM_DETAIL_INTERFACE;
[[gnu::used]] static const char* const interface_of_headers = &HIPVMM_DETAIL_INTERFACE;

}  // namespace hipvmm::detail

namespace hipvmm {

/// The 16 bytes of hipDeviceGetUuid, the same in each process of a machine, whatever its ordinals.
struct device_uuid {
  std::array<unsigned char, 16> bytes{};

  friend bool operator==(const device_uuid& a, const device_uuid& b) noexcept {
    return a.bytes == b.bytes;
  }
  friend bool operator!=(const device_uuid& a, const device_uuid& b) noexcept { return !(a == b); }
  friend bool operator<(const device_uuid& a, const device_uuid& b) noexcept {
    return a.bytes < b.bytes;
  }
};

/// Formats a UUID as vendors' tools and HIP_VISIBLE_DEVICES write it: "GPU-9c5d1a0be6f73482" (AMD),
/// "GPU-01234567-89ab-cdef-0123-456789abcdef" (NVIDIA).
[[nodiscard]] std::string to_string(const device_uuid& uuid);

/// A device by its HIP ordinal. Functions that use a missing one throw std::invalid_argument.
class device_ref {
 public:
  explicit constexpr device_ref(int ordinal) noexcept : ordinal_{ordinal} {}

  /// Throws: unsupported when there is no HIP device.
  [[nodiscard]] static device_ref current();

  [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }

  [[nodiscard]] std::string name() const;
  /// Throws: unsupported if the runtime reports none, as AMD's does if ROCr knows none.
  [[nodiscard]] device_uuid uuid() const;
  /// Bytes, as HIP reports them: on an APU perhaps only the firmware's, less than free_memory().
  [[nodiscard]] std::size_t total_memory() const;
  /// Bytes, as hipMemGetInfo reports them. Memory that chunk_cache::shared() keeps is not free.
  [[nodiscard]] std::size_t free_memory() const;
  /// True for the device itself.
  [[nodiscard]] bool can_access_peer(device_ref peer) const;
  /// Grants this device access to all memory of hipMalloc on `peer`, now and later, but not to
  /// mapped chunks; for the whole process, and permanently. Throws: hip_error without a link.
  void enable_peer_access(device_ref peer) const;
  /// True if the runtime cannot report it (HIP before 5.3).
  [[nodiscard]] bool supports_virtual_memory() const;
  [[nodiscard]] bool supports_memory_pools() const;
  /// Whether memory of hipMallocManaged migrates. Otherwise AMD allocates pinned host memory.
  [[nodiscard]] bool supports_managed_memory() const;
  /// Whether host and device may use managed memory at the same time, and it can be moved (AMD:
  /// HMM).
  [[nodiscard]] bool supports_concurrent_managed_access() const;
  /// Whether the device can access all host memory, as malloc allocates it (AMD: XNACK on).
  [[nodiscard]] bool supports_pageable_access() const;
  /// Waits until all work submitted to the device has finished, in streams of other libraries too.
  /// - If hipFree waits for the device, streams that are being captured keep their captures. On
  ///   NVIDIA other threads' submissions wait meanwhile, as beside hipFree.
  /// - Otherwise captures are invalidated, and the call throws.
  /// Throws: hip_error, for captures hipErrorStreamCaptureUnsupported.
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

/// Zero without a HIP device. Throws: hip_error.
[[nodiscard]] int device_count();

/// Empty if the process does not see it. The text is that of to_string(). Throws: hip_error.
[[nodiscard]] std::optional<device_ref> device_with_uuid(const device_uuid& uuid);
[[nodiscard]] std::optional<device_ref> device_with_uuid(std::string_view uuid);

/// Free and total bytes, in this order (hipMemGetInfo).
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory();
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory(device_ref device);

/// Bytes for a pool, a multiple of 256. Throws: std::invalid_argument unless 0 <= `percent` <= 100.
[[nodiscard]] std::size_t percent_of_free_device_memory(int percent);
[[nodiscard]] std::size_t percent_of_free_device_memory(device_ref device, int percent);

/// Throws: std::invalid_argument unless `device` exists; unsupported without any HIP device.
void require_device(device_ref device);

/// Makes a device current for its thread, which must destroy the object too.
class scoped_device {
 public:
  explicit scoped_device(device_ref device);
  ~scoped_device();
  scoped_device& operator=(scoped_device&&) = delete;

 private:
  device_ref previous_;
  bool changed_;
};

}  // namespace hipvmm
