// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "handle_table.hpp"
#include "mem_pool.hpp"

namespace hipvmm::host_provider {

/// The pools of this process: by handle, each device's default and current one, and those that were
/// destroyed while blocks of them are held. Thread-safe.
class mem_pool_set {
 public:
  explicit mem_pool_set(runtime& machine);

  hipMemPool_t add(std::shared_ptr<mem_pool> pool);
  /// Throws: failure with hipErrorInvalidValue for a stale or forged handle.
  [[nodiscard]] std::shared_ptr<mem_pool> find(hipMemPool_t handle) const;
  /// Destroys any pool but a default one; where it was current the default one is again.
  void destroy(hipMemPool_t handle);

  [[nodiscard]] hipMemPool_t default_of(int device) const;
  [[nodiscard]] hipMemPool_t current_of(int device) const;
  void make_current(int device, hipMemPool_t handle);

  /// What a synchronisation does: gives memory above the thresholds back to the devices.
  void release_surplus();
  /// Gives all idle memory of one device back to it, whatever the thresholds.
  void release_idle(int device);
  /// Destroys the pools that were made or imported for a device, and sets its default one up as
  /// new.
  void reset(int device);
  /// Lets go of destroyed pools that have got their last block back.
  void forget_done() noexcept;
  /// Pools report how many more idle blocks they have, so that synchronising costs nothing where
  /// no pool has any.
  void note_idle(std::int64_t change) noexcept {
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

  handle_table<mem_pool> handles_{handle_kind::pool};
  std::atomic<std::int64_t> idle_blocks_{0};
  mutable std::mutex mutex_;
  std::vector<device_pools> devices_;
  pool_list alive_;
};

}  // namespace hipvmm::host_provider
