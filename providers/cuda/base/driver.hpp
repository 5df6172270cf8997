// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>

namespace hipvmm::cuda_provider {

/// The CUDA driver in this process: its devices, and their primary contexts, which the CUDA runtime
/// and its libraries use too. Lives as long as the process.
class driver {
 public:
  static driver& get();

  /// The result of initialization. Without a device, a driver or its library it is success, with no
  /// devices.
  [[nodiscard]] CUresult status() const noexcept { return status_; }
  [[nodiscard]] int device_count() const noexcept { return device_count_; }
  [[nodiscard]] bool has_device(int ordinal) const noexcept {
    return ordinal >= 0 && ordinal < device_count_;
  }

  /// Throws "invalid device" if there is none.
  [[nodiscard]] CUdevice device(int ordinal) const;
  /// Throws if it is no device of this process.
  [[nodiscard]] int ordinal_of(CUdevice device) const;

  /// The primary context. It is retained at the first use and released only by reset(), because at
  /// process exit the driver may be gone.
  CUcontext primary(int ordinal);
  /// The device that has `context`, the thread's current one, as its primary context, or -1.
  int owner_of(CUcontext context);
  /// Whether any code of the process has made the primary context.
  [[nodiscard]] bool has_primary(int ordinal) const;
  /// A context for calls that take any: the primary one of device `ordinal`, or, if there is none
  /// yet, that of another device that this provider uses.
  CUcontext any_primary(int ordinal);
  /// Destroys the primary context and all in it; the next use makes another.
  void reset(int ordinal);
  /// Waits for all work of the devices that this provider has used, as hipFree does, and keeps
  /// captures of other threads.
  void wait_all();

 private:
  static constexpr int most_devices = 64;

  driver();

  CUresult status_ = CUDA_SUCCESS;
  int device_count_ = 0;
  std::array<CUdevice, most_devices> devices_{};
  std::array<std::atomic<CUcontext>, most_devices> primaries_{};
};

}  // namespace hipvmm::cuda_provider
