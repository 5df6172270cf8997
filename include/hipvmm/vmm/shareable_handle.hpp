// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

/// Owns an exported chunk as a POSIX file descriptor, which the operating system can pass on. The
/// memory lives as long as any process holds the descriptor, an imported chunk or a mapping.
class shareable_handle {
 public:
  /// An empty owner.
  shareable_handle() noexcept = default;
  /// Exports `chunk`, which then counts as shared().
  /// Throws: std::invalid_argument when the chunk is empty or was not created with
  /// handle_type::posix_fd; out_of_memory when the process has no descriptor left.
  explicit shareable_handle(physical_chunk& chunk);
  /// Takes ownership of a descriptor received from another process. `bytes` is the chunk's size,
  /// which the sender must pass along: HIP cannot derive it from the descriptor. An import refuses
  /// more than the system reports for the descriptor. Its end does not wait for the sender, which
  /// may have sent a descriptor whose close lasts.
  shareable_handle(int descriptor, std::size_t bytes) noexcept
      : descriptor_{descriptor}, bytes_{bytes}, is_received_{true} {}
  ~shareable_handle();
  shareable_handle(shareable_handle&& other) noexcept
      : descriptor_{std::exchange(other.descriptor_, -1)},
        bytes_{std::exchange(other.bytes_, 0)},
        is_received_{other.is_received_} {}
  shareable_handle& operator=(shareable_handle&& other) noexcept;

  /// The descriptor, -1 when empty.
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  /// Releases ownership; the caller closes the descriptor.
  [[nodiscard]] int release() noexcept {
    bytes_ = 0;
    return std::exchange(descriptor_, -1);
  }
  [[nodiscard]] bool empty() const noexcept { return descriptor_ < 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  int descriptor_ = -1;
  std::size_t bytes_ = 0;
  bool is_received_ = false;  // and so may be anything
};

/// Imports the exported memory into this process as a chunk of `device`. `handle` stays owned by
/// the caller and may be closed afterwards.
/// Throws: std::invalid_argument when `handle` is empty, names no open descriptor, or claims more
/// bytes than the system reports for it (the size of a dma-buf or memfd; NVIDIA's driver reports
/// none); out_of_memory when the process has no descriptor left; hip_error when HIP refuses it.
[[nodiscard]] physical_chunk import_chunk(const shareable_handle& handle, device_ref device);

/// An exported chunk as plain bytes, which any transport carries, to another node too. It holds
/// nothing: the memory must live until the other side has imported it. A process that has the bytes
/// and may open the machine's fabric can use the memory.
struct fabric_handle {
  std::array<unsigned char, 64> data{};  ///< HIP's handle
  std::uint64_t bytes = 0;               ///< the chunk's size, which HIP cannot derive from it
};

/// Exports `chunk`, which then counts as shared().
/// Throws: std::invalid_argument when the chunk is empty or was not created with
/// handle_type::fabric, or posix_fd_and_fabric; hip_error if HIP refuses it.
[[nodiscard]] fabric_handle export_fabric(physical_chunk& chunk);

/// Imports the exported memory into this process as a chunk of `device`.
/// Throws: std::invalid_argument when `handle` says no bytes; hip_error if HIP refuses it, as
/// if the exporter has gone.
[[nodiscard]] physical_chunk import_chunk(const fabric_handle& handle, device_ref device);

}  // namespace hipvmm
