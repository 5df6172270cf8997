// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <shared_mutex>

// Keeps calls of HIP apart that would miss, crash or block each other.
namespace hipvmm::detail {

/// Lock held around each HIP call that searches a device's pools: hipFree, hipFreeAsync,
/// hipStreamDestroy and waits for a device. Meanwhile the library creates and destroys no pool,
/// beside which AMD's runtime crashes (6.4.3) or blocks for good (7.2.4): `pool_beside_free` in
/// docs/guides/rocm.md.
class pool_search {
 public:
  pool_search();

 private:
  std::shared_lock<std::shared_mutex> no_change_;
};

/// Blocks until no pool_search is under way, and returns the lock; none begins while it is held.
/// Returns an empty lock in a child of fork(), and after pool_patience, because the work that a
/// search waits for may need the caller.
[[nodiscard]] std::unique_lock<std::shared_mutex> keep_pool_searches_out() noexcept;
inline constexpr std::chrono::milliseconds pool_patience{100};

// Prevents a wait for a device from missing a stream that is destroyed meanwhile.

/// Known behaviour of HIP's waits for a device. A capability record sets it once it is made.
struct device_wait_rules {
  /// A wait for the device includes a stream in hipStreamDestroy of another thread.
  bool counts_ending_streams = true;
  /// In a thread in relaxed mode, hipFree waits for all work of its device during a stream capture
  /// and invalidates none. hipDeviceSynchronize is refused there and invalidates them all; on AMD
  /// 6.4.3, 7.2.4 and on NVIDIA it crashes if another thread ends a capture meanwhile
  /// (`sync_beside_capture_end` in docs/guides/rocm.md). Nullopt: not known yet, which counts as
  /// yes for NVIDIA's runtime.
  std::optional<bool> free_waits;
};
void set_device_wait_rules(device_wait_rules rules) noexcept;
[[nodiscard]] bool waits_count_ending_streams() noexcept;
[[nodiscard]] std::optional<bool> frees_wait() noexcept;

/// Lock held around each HIP call that waits for a device: meanwhile no stream is destroyed
/// that could not be waited for before.
class device_wait {
 public:
  /// `device`: its HIP ordinal.
  explicit device_wait(int device);

 private:
  pool_search searches_;
  std::shared_lock<std::shared_mutex> no_end_;
};

/// Blocks until nobody waits for the device, and returns the lock; no wait begins while it is held.
/// Returns an empty lock in a child of fork().
[[nodiscard]] std::unique_lock<std::shared_mutex> keep_waits_out(int device) noexcept;

}  // namespace hipvmm::detail
