// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_sharing.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm::detail {
class pending_frees;
}

namespace hipvmm::mr {

/// How a pool of HIP's begins.
struct hip_async_options {
  /// Taken from the device and given back to the pool at once, in bytes, so that first requests
  /// find it there; at most `release_threshold`.
  std::size_t initial_bytes = 0;
  /// What is held beyond this, in bytes, goes back to the device when it is idle and a stream, an
  /// event or the device is waited for.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  /// Whether the pool and its blocks can be exported to other processes.
  handle_type shareable = handle_type::none;
};

/// Memory of one device from a stream-ordered pool of HIP's (hipMallocFromPoolAsync): a pool of its
/// own, or a view of one that others own. What one gave may go back to any other of the same pool.
/// Destruction is safe with blocks still out; they stay valid until they are freed by hipFreeAsync.
/// A block returns to HIP's pool only at a call behind the end of the work that uses it where it
/// was deallocated without a stream, and on AMD's runtime, whose pools reuse memory too early: no
/// deallocation waits, but the end of the pool's last resource does. See docs/guides/resources.md,
/// "Pools of HIP's own".
class hip_async_resource final : public memory_resource {
 public:
  /// What HIP tells of the pool, in bytes.
  struct pool_statistics {
    std::size_t reserved_current;  ///< held from the device
    std::size_t reserved_high;     ///< most of it since the start or reset_peaks()
    std::size_t used_current;      ///< handed out
    std::size_t used_high;         ///< most of it since the start or reset_peaks()
  };

  /// Makes a pool, which goes with the resource.
  /// Throws: std::invalid_argument when there is no such device, or for `initial_bytes` beyond
  /// `release_threshold`; unsupported where the device has no pools (ROCm before 6.2 has them off);
  /// out_of_memory when `initial_bytes` are not to be had.
  explicit hip_async_resource(device_ref device, const hip_async_options& options = {});
  /// A view of a pool that others own, with the settings that it has: it outlives the resource.
  /// Pre: `pool` is a pool on `device`, which HIP cannot tell.
  /// Throws: std::invalid_argument when it is nullptr or there is no such device; unsupported.
  hip_async_resource(device_ref device, ihipMemPoolHandle_t* pool);
  ~hip_async_resource() override;
  hip_async_resource(const hip_async_resource&) = delete;
  hip_async_resource& operator=(const hip_async_resource&) = delete;

  /// The pool that `device` has from the start, for a view. Throws: as the constructors.
  [[nodiscard]] static ihipMemPoolHandle_t* default_pool(device_ref device);
  /// The pool that hipMallocAsync takes from on `device`, for a view. Throws: as the constructors.
  [[nodiscard]] static ihipMemPoolHandle_t* current_pool(device_ref device);
  /// Makes this pool the one that hipMallocAsync takes from on its device, in the whole process,
  /// until another is, or until it is destroyed, which brings the default one back.
  void make_current() const;

  [[nodiscard]] device_ref device() const noexcept { return sync_stream_.device(); }
  /// HIP's pool, to be used beside the resource; nullptr never.
  [[nodiscard]] ihipMemPoolHandle_t* get() const noexcept { return pool_.value; }

  [[nodiscard]] std::size_t release_threshold() const;
  void set_release_threshold(std::size_t bytes);
  [[nodiscard]] pool_reuse reuse() const;
  void set_reuse(pool_reuse reuse);
  [[nodiscard]] pool_statistics statistics() const;
  /// Sets both highs to what is there now. After a failure one of them may be set.
  void reset_peaks();
  /// Gives idle memory back to the device until `bytes_to_keep` are held, on AMD until so many are
  /// idle; what work still uses stays. Waits for nothing.
  void trim_to(std::size_t bytes_to_keep);

  /// Sets what `device` may do with all memory of the pool, present and future.
  /// Throws: std::invalid_argument when there is no such device, or for less than read_write of the
  /// pool's own; unsupported, naming both, when `device` cannot reach the memory, when HIP knows no
  /// such right for pools (CUDA: read), or cannot take one back (ROCm up to 6.4).
  /// Note: AMD lets a device write that was granted to read, or whose right was taken back.
  void grant(device_ref device, access_right right = access_right::read_write);
  void revoke(device_ref device) { grant(device, access_right::none); }
  [[nodiscard]] access_right access(device_ref device) const;

  /// The pool for another process, which makes an imported_pool of it; the handle's bytes() are 0.
  /// ROCm tells importers the rights that are granted when it is exported first.
  /// Throws: std::invalid_argument unless the resource made its pool, with `shareable`;
  /// out_of_memory when the process has no descriptor left; hip_error.
  [[nodiscard]] shareable_handle export_handle();
  /// A block in use for a process that has the pool.
  /// Throws: as export_handle, and std::invalid_argument when HIP does not know the block.
  /// Note: memory of hipMalloc is no pool's. CUDA refuses it here; ROCm does not look.
  [[nodiscard]] exported_pointer export_pointer(void* pointer) const;

 private:
  // A member of its own, so that it goes when a later step of a constructor fails.
  struct used_pool {
    ihipMemPoolHandle_t* value = nullptr;
    bool is_owned = false;
    used_pool(device_ref device, handle_type shareable);
    used_pool(device_ref device, ihipMemPoolHandle_t* viewed);
    ~used_pool();
    used_pool(const used_pool&) = delete;
    used_pool& operator=(const used_pool&) = delete;
  };

  void require_shareable() const;
  [[nodiscard]] void* allocate_from_pool(stream_ref stream, std::size_t bytes);
  [[nodiscard]] void* allocate_behind_frees(stream_ref stream, std::size_t bytes);
  [[nodiscard]] void* allocate_guarded(stream_ref stream, std::size_t bytes, std::size_t alignment);

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override { return device(); }

  std::mutex exporting_;
  shareable_handle exported_;  // HIP's own on ROCm, the same each time; closed behind the pool
  handle_type shareable_ = handle_type::none;
  used_pool pool_;
  stream sync_stream_;                              // of allocate_sync()
  std::shared_ptr<detail::pending_frees> pending_;  // ends before the pool does
  bool is_guarded_;  // HIP's pools reuse in another order than that of streams
};

}  // namespace hipvmm::mr
