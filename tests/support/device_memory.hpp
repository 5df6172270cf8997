// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <new>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::test {

/// Memory from hipMalloc, for tests of the layer below the library's own memory.
class device_memory {
 public:
  explicit device_memory(std::size_t bytes, device_ref device = device_ref{0}) {
    const scoped_device scope{device};
    if (hipMalloc(&address_, bytes) != hipSuccess) throw std::bad_alloc{};
  }
  ~device_memory() { static_cast<void>(hipFree(address_)); }
  device_memory& operator=(device_memory&&) = delete;

  [[nodiscard]] unsigned char* get() const noexcept {
    return static_cast<unsigned char*>(address_);
  }

 private:
  void* address_ = nullptr;
};

/// Host memory that copies use without waiting (hipHostMalloc).
class pinned_memory {
 public:
  explicit pinned_memory(std::size_t bytes) {
    if (hipHostMalloc(&address_, bytes, hipHostMallocDefault) != hipSuccess) throw std::bad_alloc{};
  }
  ~pinned_memory() { static_cast<void>(hipHostFree(address_)); }
  pinned_memory& operator=(pinned_memory&&) = delete;

  [[nodiscard]] unsigned char* get() const noexcept {
    return static_cast<unsigned char*>(address_);
  }

 private:
  void* address_ = nullptr;
};

}  // namespace hipvmm::test
