// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

std::optional<device_uuid> find_uuid(device_ref device);
/// Whether HIP's bytes are a UUID: not if all are zero, nor on AMD if ROCr knows none.
bool names_device(const device_uuid& uuid);

/// hipDriverGetVersion, for display and comparison with itself: AMD's numbers are of several kinds.
int driver_version();

/// Whether the process has used the device; true if HIP does not answer. False only on NVIDIA,
/// without a primary context: it has no work, and a call would make the context (hundreds of MiB).
[[nodiscard]] bool has_context(device_ref device) noexcept;

/// Calls hipDeviceSynchronize, which device_ref::synchronize() avoids. Throws: hip_error.
void synchronize_device(device_ref device);
inline constexpr std::size_t bytes_of_wait_by_free = 1;
/// Waits for all work of `device` by freeing a small allocation. Returns false, without a wait, if
/// no memory of the device is free. Throws: hip_error.
[[nodiscard]] bool wait_by_free(device_ref device);
/// Number of wait_by_free() calls that have ended, in any thread.
[[nodiscard]] std::uint64_t waits_by_free() noexcept;
/// Waits until a wait_by_free() for the device of `of` ends in another thread. Returns false at
/// once if none runs, or if its small allocation can't be all that the request lacks.
[[nodiscard]] bool outlast_wait_by_free(const shortage& of) noexcept;
/// wait_by_free() by pinned memory, on NVIDIA, whose hipHostFree waits too: works on a full device.
[[nodiscard]] bool wait_by_host_free(device_ref device);
/// Both waits, by two functions of HIP, which messages name.
[[nodiscard]] bool wait_by_release(device_ref device, hipError_t (*allocate)(void** pointer),
                                   const char* allocates, hipError_t (*release)(void* pointer),
                                   const char* releases);

/// Makes the primary context of HIP's current device the thread's, on NVIDIA and if it has none,
/// as HIP's own functions for memory do. Throws: hip_error.
void bind_context();

/// Throws: std::invalid_argument; hip_error.
void make_current(device_ref device);

/// Makes `device` current while it lives, if there is one; reports a failure, and goes on.
class tried_device {
 public:
  explicit tried_device(std::optional<device_ref> device) noexcept {
    if (device) report_exceptions([&] { scope_.emplace(*device); });
  }

 private:
  std::optional<scoped_device> scope_;
};

/// The number of lanes that run in lockstep: 64 on CDNA, 32 on RDNA and NVIDIA.
int warp_size_of(device_ref device);

/// Memory that a program may count on: the total, or on a device that shares the host's memory the
/// free memory if that is more, because ROCm may report the firmware's as total (ROCm/hip#3892).
[[nodiscard]] std::size_t usable_memory(device_ref device);
/// Memory that no request exceeds: usable_memory(), and on such a device all memory of the host.
[[nodiscard]] std::size_t most_memory(device_ref device);

}  // namespace hipvmm::detail
