// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace bench {

/// Addresses whose chunks come and go by HIP's calls alone, which no library can avoid.
class raw_sleep {
 public:
  /// Asleep at first.
  raw_sleep(hipvmm::device_ref device, std::size_t bytes, std::size_t chunk);
  ~raw_sleep();
  raw_sleep(const raw_sleep&) = delete;
  raw_sleep& operator=(const raw_sleep&) = delete;

  /// hipMemCreate, hipMemMap and hipMemSetAccess for each chunk.
  void wake();
  /// hipMemUnmap and hipMemRelease for each chunk.
  void sleep();
  /// Both for one chunk.
  void wake_chunk(std::size_t index);
  void sleep_chunk(std::size_t index);

  [[nodiscard]] std::size_t chunks() const noexcept { return handles_.size(); }
  [[nodiscard]] void* at(std::size_t index) const noexcept {
    return static_cast<char*>(base_) + index * chunk_;
  }

 private:
  hipvmm::device_ref device_;
  std::size_t chunk_;
  void* base_ = nullptr;
  std::vector<hipMemGenericAllocationHandle_t> handles_;  // null while asleep
};

/// Pinned memory of the host.
class raw_pinned {
 public:
  explicit raw_pinned(std::size_t bytes);
  ~raw_pinned();
  raw_pinned(raw_pinned&& other) noexcept;
  raw_pinned& operator=(raw_pinned&&) = delete;
  [[nodiscard]] void* get() const noexcept { return start_; }

 private:
  void* start_ = nullptr;
};

void copy_async(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                hipvmm::stream_ref stream);
/// One copy, and the wait for it.
void copy_now(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
              hipvmm::stream_ref stream);

}  // namespace bench
