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
/// False if all bytes are zero, or on AMD if ROCr knows no UUID.
bool names_device(const device_uuid& uuid);

/// AMD's numbers are of several kinds: for display and comparison with itself.
int driver_version();

/// True if HIP does not answer. False only on NVIDIA, without a primary context: the device has no
/// work, and a call would make the context (hundreds of MiB).
[[nodiscard]] bool has_context(device_ref device) noexcept;

/// hipDeviceSynchronize, which device_ref::synchronize() avoids. Throws: hip_error.
void synchronize_device(device_ref device);
inline constexpr std::size_t bytes_of_wait_by_free = 1;
/// Waits for all work of `device` by freeing a small allocation. Returns false, without a wait, if
/// the device has no memory for it. Throws: hip_error.
[[nodiscard]] bool wait_by_free(device_ref device);
/// Number of wait_by_free() calls that have ended, in any thread.
[[nodiscard]] std::uint64_t waits_by_free() noexcept;
/// Waits until another thread's wait_by_free() for the device of `of` ends. Returns false at once
/// if there is none, or if the request lacks more than its small allocation.
[[nodiscard]] bool outlast_wait_by_free(const shortage& of) noexcept;
/// wait_by_free() by pinned memory, for a full device on NVIDIA: hipHostFree waits there too.
[[nodiscard]] bool wait_by_host_free(device_ref device);
/// Frees what `allocate` returned, to wait; messages name the two functions.
[[nodiscard]] bool wait_by_release(device_ref device, hipError_t (*allocate)(void** pointer),
                                   const char* allocates, hipError_t (*release)(void* pointer),
                                   const char* releases);

/// On NVIDIA gives a thread without a context the current device's. Throws: hip_error.
void bind_context();

/// Throws: std::invalid_argument; hip_error.
void make_current(device_ref device);

/// Makes `device` current while it lives, if there is one. Reports a failure and goes on.
class tried_device {
 public:
  explicit tried_device(std::optional<device_ref> device) noexcept {
    if (device) report_exceptions([&] { scope_.emplace(*device); });
  }

 private:
  std::optional<scoped_device> scope_;
};

/// 64 on CDNA, 32 on RDNA and NVIDIA.
int warp_size_of(device_ref device);

/// The total; on a device that shares the host's memory the free memory if that is more, because
/// ROCm may report the firmware's as total (ROCm/hip#3892).
[[nodiscard]] std::size_t usable_memory(device_ref device);
/// No request exceeds it: usable_memory(), or all memory of the host if the device shares that.
[[nodiscard]] std::size_t most_memory(device_ref device);

}  // namespace hipvmm::detail
