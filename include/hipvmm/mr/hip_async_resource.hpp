// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>

// The opaque struct behind hipMemPool_t.
struct ihipMemPoolHandle_t;

namespace hipvmm::mr {

/// Memory of one device from a stream-ordered pool of HIP's own (hipMallocFromPoolAsync), which the
/// resource owns: the runtime's answer to fragmentation and stalls, and a baseline for ours.
/// Destruction is safe with blocks still out; they stay valid until they are freed by hipFreeAsync.
class hip_async_resource final : public memory_resource {
 public:
  /// What HIP tells of the pool, in bytes.
  struct pool_statistics {
    std::size_t reserved_current;  ///< held from the device
    std::size_t reserved_high;     ///< most ever held
    std::size_t used_current;      ///< handed out
    std::size_t used_high;         ///< most ever handed out
  };

  /// The pool keeps up to `release_threshold` bytes that nobody uses when streams are waited for.
  /// Throws: std::invalid_argument when there is no such device; unsupported where it has no pools
  /// (ROCm before 6.2 has them off).
  explicit hip_async_resource(
      device_ref device, std::size_t release_threshold = std::numeric_limits<std::size_t>::max());
  ~hip_async_resource() override;
  hip_async_resource(const hip_async_resource&) = delete;
  hip_async_resource& operator=(const hip_async_resource&) = delete;

  [[nodiscard]] device_ref device() const noexcept { return sync_stream_.device(); }
  /// HIP's pool, to be used beside the resource; nullptr never.
  [[nodiscard]] ihipMemPoolHandle_t* get() const noexcept { return pool_.value; }
  [[nodiscard]] pool_statistics statistics() const;

 private:
  // A member of its own, so that it goes when a later step of the constructor fails.
  struct owned_pool {
    ihipMemPoolHandle_t* value = nullptr;
    explicit owned_pool(device_ref device);
    ~owned_pool();
    owned_pool(const owned_pool&) = delete;
    owned_pool& operator=(const owned_pool&) = delete;
  };

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override { return device(); }

  owned_pool pool_;
  stream sync_stream_;  // of allocate_sync() and deallocate_sync()
};

}  // namespace hipvmm::mr
