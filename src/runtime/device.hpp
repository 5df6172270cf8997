// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// The device's UUID, or none where the runtime reports none.
std::optional<device_uuid> find_uuid(device_ref device);
/// Returns whether HIP's bytes are the UUID of a device. They are not where they are all zero, and
/// on AMD where ROCr knows none.
bool names_device(const device_uuid& uuid);

/// Returns the result of hipRuntimeGetVersion: HIP's number on AMD, CUDA's on NVIDIA;
/// hip_compat::is_cuda_version distinguishes them.
int runtime_version();
/// Returns the result of hipDriverGetVersion. Its numbers on AMD are of other kinds in some
/// releases: use them only for display and for comparison with themselves.
int driver_version();

/// Returns whether the process has used the device. False only on NVIDIA, where nobody has made its
/// primary context: then it has no work, and a call with it current would make one, which takes
/// hundreds of MiB of the device. True where HIP does not answer.
[[nodiscard]] bool has_context(device_ref device) noexcept;

/// Makes the primary context of HIP's current device the thread's, on NVIDIA and where it has none,
/// as HIP's own functions for memory do. Throws: hip_error.
void bind_context();

/// The number of lanes that run in lockstep: 64 on CDNA, 32 on RDNA and NVIDIA.
int warp_size_of(device_ref device);

/// Memory that a program may count on: the total, and on a device that shares the host's memory
/// also what is free now. There ROCm may report as the total what the firmware set aside, and more
/// as free (ROCm/hip#3892).
[[nodiscard]] std::size_t usable_memory(device_ref device);
/// Memory that no request exceeds: usable_memory(), and on such a device all memory of the host.
[[nodiscard]] std::size_t most_memory(device_ref device);

}  // namespace hipvmm::detail
