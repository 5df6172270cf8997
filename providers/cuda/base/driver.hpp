// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>

namespace hipvmm::cuda_provider {

/// The CUDA driver as this process finds it: its devices, and of each the primary context, which
/// the CUDA runtime and the libraries on it use too. Lives as long as the process.
class driver {
 public:
  static driver& get();

  /// The result of initialization. A machine without a device, a driver or its library is no
  /// failure: it has no devices.
  [[nodiscard]] CUresult status() const noexcept { return status_; }
  [[nodiscard]] int device_count() const noexcept { return device_count_; }
  [[nodiscard]] bool has_device(int ordinal) const noexcept {
    return ordinal >= 0 && ordinal < device_count_;
  }

  /// Device `ordinal`; throws "invalid device" if there is none.
  [[nodiscard]] CUdevice device(int ordinal) const;
  /// Its number; throws if it is no device of this process.
  [[nodiscard]] int ordinal_of(CUdevice device) const;

  /// The primary context of device `ordinal`. It is retained on first use and never released, but
  /// by a reset: at process exit the driver may be gone.
  CUcontext primary(int ordinal);
  /// The device whose primary context `context`, the thread's current one, is, or -1.
  int owner_of(CUcontext context);
  /// Whether the process has a primary context of device `ordinal`, made by any of its code.
  [[nodiscard]] bool has_primary(int ordinal) const;
  /// A context for calls that need one and do not care which: the primary one of device `ordinal`,
  /// or, if there is none yet, that of another device that this provider uses.
  CUcontext any_primary(int ordinal);
  /// Destroys the primary context of device `ordinal` with all in it; the next use makes another.
  void reset(int ordinal);
  /// Waits for all work of the devices that this provider has used, as hipFree does: captures of
  /// other threads are kept.
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
