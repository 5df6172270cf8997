// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace hipvmm::detail {

/// Held around each HIP call that searches a device's pools: frees, hipStreamDestroy and waits. If
/// a pool changes meanwhile, AMD's runtime crashes (6.4.3) or blocks for good (7.2.4):
/// `pool_beside_free` in docs/guides/rocm.md.
class pool_search {
 public:
  pool_search();

 private:
  std::shared_lock<std::shared_mutex> no_change_;
};

/// Blocks until no pool_search runs; none begins under the returned lock. Empty in a child of
/// fork(), and after pool_patience, because a search may wait for work that needs the caller.
[[nodiscard]] std::unique_lock<std::shared_mutex> keep_pool_searches_out() noexcept;
inline constexpr std::chrono::milliseconds pool_patience{100};

/// Defaults until a capability record sets them.
struct device_wait_rules {
  /// A wait for the device includes a stream in hipStreamDestroy of another thread.
  bool counts_ending_streams = true;
  /// In relaxed mode hipFree waits for its device beside a capture and invalidates none, while
  /// hipDeviceSynchronize invalidates all, and crashes on AMD 6.4.3, 7.2.4 and NVIDIA if another
  /// thread ends one (`sync_beside_capture_end` in docs/guides/rocm.md). Nullopt: no record yet,
  /// then yes on NVIDIA.
  std::optional<bool> free_waits;
};
void set_device_wait_rules(device_wait_rules rules) noexcept;
[[nodiscard]] bool waits_count_ending_streams() noexcept;
[[nodiscard]] std::optional<bool> frees_wait() noexcept;

/// Held around each HIP call that waits for a device; excludes ends of streams that it would miss.
class device_wait {
 public:
  explicit device_wait(int device);

 private:
  pool_search searches_;
  std::shared_lock<std::shared_mutex> no_end_;
};

/// Blocks until nobody waits for the device, and keeps others out. Empty in a child of fork().
[[nodiscard]] std::unique_lock<std::shared_mutex> keep_waits_out(int device) noexcept;

}  // namespace hipvmm::detail
