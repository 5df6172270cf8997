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
  shareable_handle() noexcept = default;
  /// Exports `chunk`, which then counts as shared().
  /// Throws: std::invalid_argument when the chunk is empty or was created without
  /// handle_type::posix_fd; out_of_memory when the process has no descriptor left; hip_error.
  explicit shareable_handle(physical_chunk& chunk);
  /// Takes ownership of a descriptor received from another process. The sender must pass along the
  /// chunk's size, `bytes`, because HIP cannot derive it. The destructor waits a moment at most
  /// for the close, which a foreign descriptor can make last.
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

/// Imports the exported memory as a chunk of `device`. The caller keeps `handle` and may close it.
/// Throws: std::invalid_argument when `handle` is empty, names no open descriptor, or claims more
/// bytes than the system reports (the size of a dma-buf or memfd; NVIDIA's driver reports none);
/// out_of_memory when the process has no descriptor left; hip_error when HIP refuses it.
[[nodiscard]] physical_chunk import_chunk(const shareable_handle& handle, device_ref device);

/// An exported chunk as plain bytes for any transport, to other nodes too. It owns nothing: the
/// memory must live until the other side has imported it. A process that has the bytes and may open
/// the machine's fabric can use the memory.
struct fabric_handle {
  std::array<unsigned char, 64> data{};  ///< HIP's handle
  std::uint64_t bytes = 0;               ///< the chunk's size, which HIP cannot derive from it
};

/// Exports `chunk`, which then counts as shared(). Throws: std::invalid_argument when it is empty
/// or was created without handle_type::fabric; hip_error if HIP refuses it.
[[nodiscard]] fabric_handle export_fabric(physical_chunk& chunk);

/// Imports the exported memory as a chunk of `device`. Throws: std::invalid_argument for no bytes;
/// out_of_memory; hip_error if HIP refuses it, as if the exporter has ended.
[[nodiscard]] physical_chunk import_chunk(const fabric_handle& handle, device_ref device);

}  // namespace hipvmm
