// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

/// Owns the POSIX file descriptor of an exported chunk. The memory lives as long as any process
/// holds the descriptor, an imported chunk or a mapping.
class shareable_handle {
 public:
  shareable_handle() noexcept = default;
  /// `chunk` then counts as shared(). Throws: std::invalid_argument when it is empty or was created
  /// without handle_type::posix_fd; out_of_memory without a descriptor; hip_error.
  explicit shareable_handle(physical_chunk& chunk);
  /// Takes ownership of a descriptor received from another process. The sender must pass along the
  /// chunk's size, `bytes`, because HIP cannot derive it. The destructor waits at most a moment for
  /// the close, which a foreign descriptor can delay.
  shareable_handle(int descriptor, std::size_t bytes) noexcept
      : descriptor_{descriptor}, bytes_{bytes}, is_received_{true} {}
  ~shareable_handle();
  shareable_handle(shareable_handle&& other) noexcept
      : descriptor_{std::exchange(other.descriptor_, -1)},
        bytes_{std::exchange(other.bytes_, 0)},
        is_received_{other.is_received_} {}
  shareable_handle& operator=(shareable_handle&& other) noexcept;

  /// -1 when empty.
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
  bool is_received_ = false;
};

/// The caller keeps `handle` and may close it. Throws: std::invalid_argument when `handle` is
/// empty, not open, or claims more bytes than the system reports (NVIDIA's driver reports none);
/// out_of_memory without a descriptor; hip_error when HIP refuses it.
[[nodiscard]] physical_chunk import_chunk(const shareable_handle& handle, device_ref device);

/// An exported chunk as bytes for any transport, to other nodes too. The memory must live until the
/// other side has imported it. Any process with the bytes and access to the fabric can use it.
struct fabric_handle {
  std::array<unsigned char, 64> data{};
  std::uint64_t bytes = 0;  ///< HIP cannot derive it
};

/// `chunk` then counts as shared(). Throws: std::invalid_argument when it is empty or was created
/// without handle_type::fabric; hip_error if HIP refuses it.
[[nodiscard]] fabric_handle export_fabric(physical_chunk& chunk);

/// Throws: std::invalid_argument for no bytes; out_of_memory; hip_error if HIP refuses it, as after
/// the exporter's end.
[[nodiscard]] physical_chunk import_chunk(const fabric_handle& handle, device_ref device);

}  // namespace hipvmm
