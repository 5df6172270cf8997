// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <hipvmm/core/owner_process.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/device_allocation.hpp>

namespace hipvmm::mr {

/// A block in memory of hipMalloc, for other processes of this machine: HIP's handle of the
/// allocation (hipIpcMemHandle_t), and the block's offset in it. Plain bytes for any channel. A
/// program that takes only the handle must add `offset` to the result of hipIpcOpenMemHandle.
struct legacy_ipc_block {
  std::array<unsigned char, 64> handle;
  std::uint64_t offset;  ///< in the allocation, in bytes
  std::uint64_t bytes;
};

/// Chunks and HIP's pools have other handles. See also vmm_pool_resource::export_legacy_block().
/// Throws: std::invalid_argument if `allocation` is empty or has no such bytes; hip_error.
[[nodiscard]] legacy_ipc_block export_legacy_block(const device_allocation& allocation,
                                                   std::size_t offset, std::size_t bytes);

/// A block from export_legacy_block() of another process. It maps all of the allocation.
/// - It must end before the exporter frees the allocation (HIP's rule); a pool does not while the
///   block is allocated.
/// - Its end waits for all work of the device. Nothing orders the work of two processes.
class imported_legacy_block {
 public:
  imported_legacy_block() noexcept = default;
  /// `device` is the exporter's, in this process's numbering, or one that reaches it.
  /// Throws: std::invalid_argument if there is no such device, if this very process exported the
  /// block, because HIP does not open it, or if the block is not within the allocation;
  /// out_of_memory; hip_error, for example if the exporter has ended.
  imported_legacy_block(const legacy_ipc_block& block, device_ref device);

  /// The first byte; nullptr when empty.
  [[nodiscard]] void* data() const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return empty() ? 0 : bytes_; }
  [[nodiscard]] bool empty() const noexcept { return allocation_ == nullptr; }
  [[nodiscard]] device_ref device() const noexcept { return allocation_.get_deleter().device; }

 private:
  struct deleter {
    explicit deleter(device_ref of) noexcept : device{of} {}
    device_ref device;
    detail::owner_process process;
    void operator()(void* allocation) const noexcept;
  };

  std::unique_ptr<void, deleter> allocation_{nullptr, deleter{device_ref{0}}};
  std::size_t offset_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace hipvmm::mr
