// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>

#include <hipvmm/core/owner_process.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// Owns one hipMalloc allocation, which can neither grow nor move. Any thread may destroy it.
/// - Destruction calls hipFree, which waits for all work of the device (HIP's rule).
/// - Memory that HIP refuses to free is reported, and freed when a later request lacks memory.
class device_allocation {
 public:
  device_allocation() noexcept = default;
  /// Throws: std::invalid_argument for zero bytes; out_of_memory; hip_error, as in a capture.
  device_allocation(device_ref device, std::size_t bytes);
  /// Takes ownership of a pointer from hipMalloc.
  device_allocation(void* pointer, device_ref device, std::size_t bytes) noexcept
      : pointer_{pointer}, device_{device}, bytes_{bytes} {}
  ~device_allocation();
  device_allocation(device_allocation&& other) noexcept
      : pointer_{std::exchange(other.pointer_, nullptr)},
        device_{other.device_},
        process_{other.process_},
        bytes_{std::exchange(other.bytes_, 0)} {}
  device_allocation& operator=(device_allocation&& other) noexcept;

  [[nodiscard]] void* get() const noexcept { return pointer_; }
  /// Releases ownership; the caller frees the memory with hipFree.
  [[nodiscard]] void* release() noexcept {
    bytes_ = 0;
    return std::exchange(pointer_, nullptr);
  }
  [[nodiscard]] bool empty() const noexcept { return pointer_ == nullptr; }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* pointer_ = nullptr;
  device_ref device_{0};
  detail::owner_process process_;
  std::size_t bytes_ = 0;
};

}  // namespace hipvmm
