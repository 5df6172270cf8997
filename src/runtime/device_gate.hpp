// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <shared_mutex>

// Prevents a wait for a device from missing a stream that is destroyed meanwhile.
namespace hipvmm::detail {

/// Sets whether a wait for the device includes a stream whose hipStreamDestroy has begun in another
/// thread. True until device_wait_rules changes it.
void set_waits_count_ending_streams(bool count) noexcept;
[[nodiscard]] bool waits_count_ending_streams() noexcept;

/// Lock held around each HIP call that waits for a device: meanwhile no stream is destroyed whose
/// work could not be waited for before.
class device_wait {
 public:
  /// `device`: its HIP ordinal.
  explicit device_wait(int device);

 private:
  std::shared_lock<std::shared_mutex> no_end_;
};

/// Blocks until nobody waits for the device, and returns the lock; no wait begins while it is held.
/// Returns an empty lock in a child of fork().
[[nodiscard]] std::unique_lock<std::shared_mutex> keep_waits_out(int device) noexcept;

}  // namespace hipvmm::detail
