// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// Known behaviour of HIP's waits for a device. A capability record sets it once it is made.
struct device_wait_rules {
  /// A wait for the device includes a stream whose hipStreamDestroy has begun in another thread.
  bool counts_ending_streams = true;
  /// In a thread in relaxed mode, hipFree waits for all work of its device during a stream capture
  /// and invalidates none; hipDeviceSynchronize is refused there and invalidates them all. Nullopt:
  /// not known yet, which counts as yes for NVIDIA's runtime.
  std::optional<bool> free_waits;
};
void set_device_wait_rules(device_wait_rules rules) noexcept;

/// Waits for all work of `device`. Returns at once where it cannot have any: see has_context().
/// - Includes streams that an owner is destroying in another thread.
/// - Uses hipFree in place of hipDeviceSynchronize where hipFree waits as well: no capture is
///   invalidated, and none forbids the wait.
/// Throws: hip_error, with hipErrorStreamCaptureUnsupported where a capture forbids the wait; the
/// capture is invalidated then.
void wait_for_device(device_ref device);

/// Waits for all work of `device` by freeing a small allocation. Returns false, without a wait,
/// where no allocation is available. Declared here, defined with hipFree.
/// Throws: hip_error.
[[nodiscard]] bool wait_by_free(device_ref device);

}  // namespace hipvmm::detail
