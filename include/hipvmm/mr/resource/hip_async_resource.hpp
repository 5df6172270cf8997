// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/mr/resource/pool_sharing.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm::detail {
class pending_frees;
}

namespace hipvmm::mr {

struct hip_async_options {
  /// Allocated and freed to the pool at once, for the first requests; at most `release_threshold`.
  std::size_t initial_bytes = 0;
  /// Bytes that the pool keeps. Memory beyond them is released to the device when it is idle and a
  /// stream, an event or the device is synchronized.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  handle_type shareable = handle_type::none;
};

/// Allocates one device's memory from a stream-ordered HIP pool (hipMallocFromPoolAsync), its own
/// or a view of one that others own: docs/guides/resources.md, "Pools of HIP's own".
/// - Memory may be deallocated by any resource of the same pool.
/// - Blocks outlive the resource: they stay valid until hipFreeAsync frees them.
/// - A block returns to HIP's pool only at a call after the work that uses it has ended, in two
///   cases: it was deallocated without a stream, or HIP's pools, as AMD's, were not seen to reuse
///   memory in stream order without holding up the host (docs/reference/capability.md).
/// - Deallocations wait only if HIP refuses a step; the end of the pool's last resource waits.
class hip_async_resource final : public memory_resource {
 public:
  /// Creates a pool that is destroyed with the resource.
  /// Throws: std::invalid_argument when there is no such device, for `initial_bytes` beyond
  /// `release_threshold`, and for fabric handles; unsupported where the device has no pools (ROCm
  /// before 6.2 has them off); out_of_memory when `initial_bytes` are not available.
  explicit hip_async_resource(device_ref device, const hip_async_options& options = {});
  /// Creates a view of a pool that others own and that must outlive the resource.
  /// Pre: `pool` is a pool on `device`, which HIP cannot check.
  /// Throws: std::invalid_argument when it is nullptr or there is no such device; unsupported.
  hip_async_resource(device_ref device, ihipMemPoolHandle_t* pool);
  ~hip_async_resource() override;
  hip_async_resource& operator=(hip_async_resource&&) = delete;

  /// The default pool of `device`, for a view. Throws: as the constructors.
  [[nodiscard]] static ihipMemPoolHandle_t* default_pool(device_ref device);
  /// The pool from which hipMallocAsync allocates, for a view. Throws: as the constructors.
  [[nodiscard]] static ihipMemPoolHandle_t* current_pool(device_ref device);
  /// Makes this pool the one from which hipMallocAsync allocates on its device, in the whole
  /// process, until another is made current, or its end restores the default pool.
  void make_current() const;

  [[nodiscard]] device_ref device() const noexcept { return sync_stream_.device(); }
  /// HIP's pool, for direct use beside the resource; never nullptr.
  [[nodiscard]] ihipMemPoolHandle_t* get() const noexcept { return pool_.value; }

  [[nodiscard]] std::size_t release_threshold() const;
  void set_release_threshold(std::size_t bytes);
  [[nodiscard]] pool_reuse reuse() const;
  void set_reuse(pool_reuse reuse);
  /// HIP's statistics. Deallocated blocks that wait for work do not count as used.
  [[nodiscard]] pool_usage statistics() const;
  /// Sets both high-water marks to the current values. After a failure, one of them may be set.
  void reset_peaks();
  /// Releases idle memory to the device until `bytes_to_keep` are held; on AMD, until
  /// `bytes_to_keep` are idle. Memory that work still uses stays. Does not wait.
  void trim_to(std::size_t bytes_to_keep);

  /// Sets the access right of `device` to all memory of the pool, present and future.
  /// Throws: std::invalid_argument when there is no such device, or for less than read_write of the
  /// pool's own; unsupported, naming both, if `device` cannot reach the memory, or HIP knows no
  /// such right for pools (CUDA: read) or cannot revoke one (ROCm up to 6.4).
  /// Note: on AMD a device can still write after a grant of read, and after its right was revoked.
  void grant(device_ref device, access_right right = access_right::read_write);
  void revoke(device_ref device) { grant(device, access_right::none); }
  [[nodiscard]] access_right access(device_ref device) const;

  /// Exports the pool for an imported_pool of another process. The handle's bytes() are 0. On ROCm
  /// importers get the rights granted at the first export.
  /// Throws: std::invalid_argument unless the resource made its pool, with `shareable`;
  /// out_of_memory when the process has no descriptor left; hip_error.
  [[nodiscard]] shareable_handle export_handle();
  /// Exports an allocated block to a process that has imported the pool.
  /// Throws: as export_handle(); std::invalid_argument when HIP does not know the block. ROCm does
  /// not refuse memory of hipMalloc, which belongs to no pool.
  [[nodiscard]] exported_pointer export_pointer(void* pointer) const;

 private:
  // A separate member, so that it is destroyed when a later step of a constructor fails.
  struct used_pool {
    ihipMemPoolHandle_t* value = nullptr;
    bool is_owned = false;
    used_pool(device_ref device, handle_type shareable);
    used_pool(device_ref device, ihipMemPoolHandle_t* viewed);
    ~used_pool();
    used_pool& operator=(used_pool&&) = delete;
  };

  void require_shareable() const;
  [[nodiscard]] void* allocate_from_pool(stream_ref stream, std::size_t bytes);

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override { return device(); }

  std::mutex exporting_;
  shareable_handle exported_;  // HIP's own on ROCm, the same each time; closed after the pool
  handle_type shareable_ = handle_type::none;
  used_pool pool_;
  stream sync_stream_;
  std::shared_ptr<detail::pending_frees> pending_;  // ends before the pool does
  bool is_guarded_;                                 // HIP's pools do not reuse in stream order
};

}  // namespace hipvmm::mr
