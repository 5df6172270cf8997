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

/// Only the library of these headers' version defines it: other programs do not link or load.
extern const char HIPVMM_DETAIL_INTERFACE;
[[gnu::used]] static const char* const interface_of_headers = &HIPVMM_DETAIL_INTERFACE;

}  // namespace hipvmm::detail

namespace hipvmm {

/// The 16 bytes by which HIP names a device (hipDeviceGetUuid). They are the same in every process
/// of a machine, whatever ordinals HIP_VISIBLE_DEVICES and its like give the devices there.
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

/// Formats a UUID as the vendor's tools and HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES write it:
/// - 16 letters and digits (AMD): "GPU-9c5d1a0be6f73482";
/// - other bytes (NVIDIA): hexadecimal in five groups, "GPU-01234567-89ab-cdef-0123-456789abcdef".
[[nodiscard]] std::string to_string(const device_uuid& uuid);

/// Names a device by its HIP ordinal, which construction does not check. Functions that use a
/// device that does not exist throw std::invalid_argument, which names the ordinal.
class device_ref {
 public:
  explicit constexpr device_ref(int ordinal) noexcept : ordinal_{ordinal} {}

  /// Throws: unsupported when there is no HIP device; the message says how to run without one.
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
  /// Grants this device access to all memory that hipMalloc allocates on `peer`, now and later, but
  /// not to mapped chunks. HIP has this right for the whole process only. It is permanent, because
  /// revoking it could disturb other code that relies on it. Throws: hip_error without a link.
  void enable_peer_access(device_ref peer) const;
  /// As the runtime reports; true if it cannot report it (HIP before 5.3).
  [[nodiscard]] bool supports_virtual_memory() const;
  /// As the runtime reports: stream-ordered pools (hipMallocAsync).
  [[nodiscard]] bool supports_memory_pools() const;
  /// Whether memory of hipMallocManaged migrates. Otherwise AMD allocates pinned host memory.
  [[nodiscard]] bool supports_managed_memory() const;
  /// Whether host and device may use managed memory at the same time, and whether it can be moved
  /// and advised about (AMD: HMM).
  [[nodiscard]] bool supports_concurrent_managed_access() const;
  /// Whether the device can access all host memory, as malloc allocates it (AMD: XNACK on).
  [[nodiscard]] bool supports_pageable_access() const;
  /// Waits until all work submitted to the device has finished, in streams of other libraries too.
  /// - If hipFree waits for the device, captures are kept and none forbids the wait. On NVIDIA
  ///   other threads' calls that submit work wait meanwhile, as beside hipFree.
  /// - Otherwise streams that are being captured lose their captures, and the call throws.
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

/// Zero without a HIP device. Throws: hip_error when the runtime itself failed.
[[nodiscard]] int device_count();

/// The device with `uuid`, or none if the process does not see it. The text is that of
/// to_string(device_uuid), letter by letter. Throws: hip_error when the runtime itself failed.
[[nodiscard]] std::optional<device_ref> device_with_uuid(const device_uuid& uuid);
[[nodiscard]] std::optional<device_ref> device_with_uuid(std::string_view uuid);

/// Free and total bytes, in this order, of the current device or of `device` (hipMemGetInfo).
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory();
[[nodiscard]] std::pair<std::size_t, std::size_t> available_device_memory(device_ref device);

/// `percent` of the free memory, to size a pool: bytes, rounded down to a multiple of 256. Throws:
/// std::invalid_argument unless 0 <= `percent` <= 100.
[[nodiscard]] std::size_t percent_of_free_device_memory(int percent);
[[nodiscard]] std::size_t percent_of_free_device_memory(device_ref device, int percent);

/// Throws: std::invalid_argument, which names the ordinal and the count, unless `device` exists;
/// unsupported when there is no HIP device at all.
void require_device(device_ref device);

/// Makes a device current for the calling thread; the destructor restores the previous one.
/// Pre: the thread that constructed it destroys it.
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
