// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/device_allocation.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

// The opaque struct behind hipMemPool_t.
struct ihipMemPoolHandle_t;

namespace hipvmm::mr {

/// Names a block of a shareable pool of HIP's to other processes: bytes that mean something to HIP
/// alone (hipMemPoolPtrExportData). Plain data, which may be sent by any road.
struct exported_pointer {
  std::array<unsigned char, 64> data;
};

/// A pool of another process, got by hip_async_resource::export_handle(): the way to blocks that
/// the other process allocates. It gives no memory of its own: CUDA refuses that, and ROCm, which
/// does not, takes memory that the exporter never sees. Any thread may use it.
class imported_pool {
 public:
  /// `device` is the exporter's, by this process's numbers; up to ROCm 7.2 HIP takes device 0. The
  /// handle stays the caller's and may be closed afterwards.
  /// Throws: std::invalid_argument for an empty handle or no such device; hip_error when HIP
  /// refuses the descriptor, as it does any that is not a pool's.
  imported_pool(const shareable_handle& handle, device_ref device);
  ~imported_pool();
  imported_pool(imported_pool&& other) noexcept
      : pool_{std::exchange(other.pool_, nullptr)}, device_{other.device_} {}
  imported_pool& operator=(imported_pool&& other) noexcept;

  /// The exporter's block at an address of this process, with `bytes` as the exporter says. It goes
  /// by hipFree when the result is destroyed, which waits for all devices' work, and must be gone
  /// before the exporter gives the block back (HIP's rule).
  /// Throws: std::invalid_argument when HIP does not take the data; out_of_memory; hip_error.
  [[nodiscard]] device_allocation import_pointer(const exported_pointer& pointer,
                                                 std::size_t bytes) const;
  /// Lets go of a block in the order of `stream`, without a wait.
  void release(stream_ref stream, device_allocation&& block) const noexcept;

  /// Sets what `device` may do with the imported blocks; on CUDA an import begins with none but the
  /// pool's own. Throws: as hip_async_resource::grant.
  void grant(device_ref device, access_right right = access_right::read_write) const;
  [[nodiscard]] access_right access(device_ref device) const;

  [[nodiscard]] device_ref device() const noexcept { return device_; }
  /// HIP's pool; nullptr when moved from.
  [[nodiscard]] ihipMemPoolHandle_t* get() const noexcept { return pool_; }

 private:
  ihipMemPoolHandle_t* pool_;
  device_ref device_;
};

}  // namespace hipvmm::mr
