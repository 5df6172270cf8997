// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/handle_table.hpp"
#include "pool/mem_pool.hpp"

namespace hipvmm::host_provider {

/// The pools of this process: by handle, each device's default and current one, and those that were
/// destroyed while blocks of them are held. Thread-safe.
class mem_pool_set final : public pool_owner {
 public:
  mem_pool_set(const pool_support& support, std::vector<device_memory*> memory);

  hipMemPool_t add(pool_origin origin, int device, std::uint64_t max_bytes, descriptor file);
  /// Throws: failure with hipErrorInvalidValue for a stale or forged handle.
  [[nodiscard]] std::shared_ptr<mem_pool> find(hipMemPool_t handle) const;
  /// Throws for a default pool. If the pool was current, the default one is again.
  void destroy(hipMemPool_t handle);

  [[nodiscard]] hipMemPool_t default_of(int device) const;
  [[nodiscard]] hipMemPool_t current_of(int device) const;
  void make_current(int device, hipMemPool_t handle);

  /// Releases memory above the thresholds, as a synchronization does.
  void release_surplus();
  void release_idle(int device) override;
  /// Destroys the pools of a device that were created or imported, and resets its default one.
  void reset(int device);
  void forget_done() noexcept override;
  void note_idle(std::int64_t change) noexcept override {
    idle_blocks_.fetch_add(change, std::memory_order_relaxed);
  }

  struct totals {
    std::uint64_t pools;  // created or imported, not destroyed
    std::uint64_t blocks_held;
    std::uint64_t files;
  };
  [[nodiscard]] totals count() const;

 private:
  struct device_pools {
    hipMemPool_t standard;
    hipMemPool_t current;
  };
  using pool_list = std::list<std::shared_ptr<mem_pool>>;
  [[nodiscard]] pool_list all() const;

  const pool_support support_;
  const std::vector<device_memory*> memory_;
  handle_table<mem_pool> handles_{handle_kind::pool};
  std::atomic<std::int64_t> idle_blocks_{0};
  mutable std::mutex mutex_;
  std::vector<device_pools> devices_;
  pool_list alive_;
};

}  // namespace hipvmm::host_provider
