// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <hipvmm/core/owner_process.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

struct ihipMemPoolHandle_t;

namespace hipvmm::mr {

/// A block of a shareable HIP pool: opaque data (hipMemPoolPtrExportData) for any channel.
struct exported_pointer {
  std::array<unsigned char, 64> data;
};

/// A pool of another process, from hip_async_resource::export_handle(), to import that process's
/// blocks. It allocates no memory itself: CUDA refuses that; ROCm allows it, but the exporter never
/// sees such memory. Thread-safe.
class imported_pool {
 public:
  /// `device` is the exporter's, in this process's numbering; up to ROCm 7.2 HIP uses device 0. The
  /// caller keeps the handle and may close it.
  /// Throws: std::invalid_argument for an empty handle or no such device; hip_error when HIP
  /// refuses the descriptor, as it does any that is not a pool's.
  imported_pool(const shareable_handle& handle, device_ref device);

  /// Maps the exporter's block of `bytes` bytes. The result must end before the exporter
  /// deallocates the block (HIP's rule). Its end waits for all devices' work (hipFree).
  /// Throws: std::invalid_argument when HIP does not accept the data, or has fewer bytes than
  /// `bytes`, or that is zero; out_of_memory; hip_error.
  [[nodiscard]] device_allocation import_pointer(const exported_pointer& pointer,
                                                 std::size_t bytes) const;
  /// Releases an imported block in the order of `stream`, without waiting.
  void release(stream_ref stream, device_allocation&& block) const noexcept;

  /// On CUDA only the pool's device has a right at first. Throws: as hip_async_resource::grant().
  void grant(device_ref device, access_right right = access_right::read_write) const;
  [[nodiscard]] access_right access(device_ref device) const;

  [[nodiscard]] device_ref device() const noexcept { return device_; }
  /// HIP's pool; nullptr when moved from.
  [[nodiscard]] ihipMemPoolHandle_t* get() const noexcept { return pool_.get(); }

 private:
  struct deleter {
    detail::owner_process process;
    void operator()(ihipMemPoolHandle_t* pool) const noexcept;
  };

  std::unique_ptr<ihipMemPoolHandle_t, deleter> pool_;
  device_ref device_;
};

}  // namespace hipvmm::mr
