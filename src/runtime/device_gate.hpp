// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <shared_mutex>

// Keeps calls of HIP apart that would miss, crash or block each other.
namespace hipvmm::detail {

/// Held around each HIP call that searches a device's pools: hipFree, hipFreeAsync,
/// hipStreamDestroy and waits for a device. Meanwhile the library changes no pool: AMD's runtime
/// would crash (6.4.3) or block for good (7.2.4), `pool_beside_free` in docs/guides/rocm.md.
class pool_search {
 public:
  pool_search();

 private:
  std::shared_lock<std::shared_mutex> no_change_;
};

/// Blocks until no pool_search runs; none begins under the returned lock. The lock is empty in a
/// child of fork(), and after pool_patience: the search may wait for work that needs the caller.
[[nodiscard]] std::unique_lock<std::shared_mutex> keep_pool_searches_out() noexcept;
inline constexpr std::chrono::milliseconds pool_patience{100};

/// HIP's waits for a device, as a capability record knows them once it is made.
struct device_wait_rules {
  /// A wait for the device includes a stream in hipStreamDestroy of another thread.
  bool counts_ending_streams = true;
  /// In relaxed mode, hipFree waits for all work of its device during a stream capture and
  /// invalidates none. hipDeviceSynchronize is refused there and invalidates them all; on AMD
  /// 6.4.3, 7.2.4 and on NVIDIA it crashes if another thread ends a capture meanwhile
  /// (`sync_beside_capture_end` in docs/guides/rocm.md). Nullopt: not known yet, yes on NVIDIA.
  std::optional<bool> free_waits;
};
void set_device_wait_rules(device_wait_rules rules) noexcept;
[[nodiscard]] bool waits_count_ending_streams() noexcept;
[[nodiscard]] std::optional<bool> frees_wait() noexcept;

/// Held around each HIP call that waits for a device, so that it does not miss a stream that ends
/// meanwhile: no stream is destroyed that could not be waited for before.
class device_wait {
 public:
  explicit device_wait(int device);

 private:
  pool_search searches_;
  std::shared_lock<std::shared_mutex> no_end_;
};

/// Blocks until nobody waits for the device; no wait begins while the returned lock is held.
/// Returns an empty lock in a child of fork().
[[nodiscard]] std::unique_lock<std::shared_mutex> keep_waits_out(int device) noexcept;

}  // namespace hipvmm::detail
