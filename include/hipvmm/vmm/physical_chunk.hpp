// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <hipvmm/runtime/device.hpp>

// The opaque struct behind hipMemGenericAllocationHandle_t.
struct ihipMemGenericAllocationHandle;

namespace hipvmm {

/// How a chunk may be exported to another process.
enum class handle_type {
  none,      ///< not at all
  posix_fd,  ///< as a POSIX file descriptor
};

/// HIP's allocation granularities of one device, in bytes.
struct allocation_granularity {
  std::size_t minimum;      ///< every chunk, reservation and mapping is a multiple of this
  std::size_t recommended;  ///< the multiple that HIP recommends for speed
};

/// Returns HIP's allocation granularities of `device`.
/// Throws: unsupported when the runtime offers no virtual memory management on `device`.
[[nodiscard]] allocation_granularity granularity_of(device_ref device);

/// Owns physical memory of one device (one hipMemCreate or import). It is not accessible until
/// mapped. Destroying it while mapped is legal: HIP keeps the memory until the last unmap.
class physical_chunk {
 public:
  /// An empty owner.
  physical_chunk() noexcept = default;
  /// Creates `bytes` bytes on `device`.
  /// Throws: std::invalid_argument when `bytes` is zero or no multiple of the minimum granularity;
  /// out_of_memory when the device or the process's descriptors are exhausted.
  physical_chunk(device_ref device, std::size_t bytes, handle_type shareable = handle_type::none);
  /// Takes ownership of a handle that was imported, or that the caller exported: another process
  /// may use the memory too. hipMemRelease will be called on it.
  physical_chunk(ihipMemGenericAllocationHandle* handle, device_ref device,
                 std::size_t bytes) noexcept
      : handle_{handle},
        device_{device},
        bytes_{bytes},
        shareable_{handle_type::posix_fd},
        shared_{true} {}
  ~physical_chunk();
  physical_chunk(physical_chunk&& other) noexcept
      : handle_{std::exchange(other.handle_, nullptr)},
        device_{other.device_},
        bytes_{std::exchange(other.bytes_, 0)},
        creation_index_{other.creation_index_},
        shareable_{other.shareable_},
        shared_{other.shared_} {}
  physical_chunk& operator=(physical_chunk&& other) noexcept;

  [[nodiscard]] ihipMemGenericAllocationHandle* get() const noexcept { return handle_; }
  /// Releases ownership; the caller releases the handle with hipMemRelease.
  [[nodiscard]] ihipMemGenericAllocationHandle* release() noexcept {
    bytes_ = 0;
    return std::exchange(handle_, nullptr);
  }
  [[nodiscard]] bool empty() const noexcept { return handle_ == nullptr; }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] handle_type shareable() const noexcept { return shareable_; }
  /// Position in the order in which this process created its chunks; zero for an imported one.
  [[nodiscard]] std::uint64_t creation_index() const noexcept { return creation_index_; }
  /// Whether another process may use the memory: it was exported or imported.
  [[nodiscard]] bool shared() const noexcept { return shared_; }

 private:
  friend class shareable_handle;

  ihipMemGenericAllocationHandle* handle_ = nullptr;
  device_ref device_{0};
  std::size_t bytes_ = 0;
  std::uint64_t creation_index_ = 0;
  handle_type shareable_ = handle_type::none;
  bool shared_ = false;
};

}  // namespace hipvmm
