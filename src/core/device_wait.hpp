// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <optional>
#include <shared_mutex>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>

// How a device is waited for, and how the end of a stream is kept from being overlooked meanwhile.
namespace hipvmm::detail {

/// What HIP's waits for a device are known to do. A capability record says so once it is made.
struct device_wait_rules {
  /// A wait for the device counts a stream whose hipStreamDestroy has begun in another thread.
  bool counts_ending_streams = true;
  /// hipFree waits for all work of its device beside a stream capture and costs none, in a thread
  /// in relaxed mode; hipDeviceSynchronize is refused there and costs them all. Nullopt: not known
  /// yet, which is yes for NVIDIA's runtime.
  std::optional<bool> free_waits;
};
void set_device_wait_rules(device_wait_rules rules) noexcept;

/// Waits for all work of `device`.
/// - Streams that an owner is destroying in another thread are waited for.
/// - Where hipFree waits as well it is used in the place of hipDeviceSynchronize: no capture is
///   lost, and none forbids the wait.
/// Throws: hip_error, with hipErrorStreamCaptureUnsupported where a capture forbids the wait; the
/// capture is lost then.
void wait_for_device(device_ref device);

/// Waits for all work of `device` by a small allocation that is freed. Returns false, without a
/// wait, where there is none to be had. Its home is that of hipFree. Throws: hip_error.
[[nodiscard]] bool wait_by_free(device_ref device);

/// Held around each HIP call that waits for a device: no stream ends meanwhile whose work could not
/// be waited for before.
class device_wait {
 public:
  explicit device_wait(device_ref device);

 private:
  std::shared_lock<std::shared_mutex> no_end_;
};

/// Held around hipStreamDestroy. Where waits for a device overlook a stream that ends, the stream
/// is waited for by the constructor; where that cannot be, as for a captured stream, the first call
/// of begin() waits until nobody waits for the device, and nobody begins to until this ends.
class stream_end {
 public:
  stream_end(stream_ref stream, device_ref device) noexcept;
  void begin() noexcept;

 private:
  device_ref device_;
  bool may_be_overlooked_;
  std::unique_lock<std::shared_mutex> no_wait_;
};

}  // namespace hipvmm::detail
