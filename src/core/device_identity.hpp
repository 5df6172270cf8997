// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <hipvmm/core/device.hpp>

namespace hipvmm::detail {

/// The device's UUID as 32 hexadecimal digits, or "none" where the runtime knows none.
std::string uuid_of(device_ref device);

/// What hipRuntimeGetVersion says: HIP's number on AMD, CUDA's on NVIDIA;
/// hip_compat::is_cuda_version tells them apart.
int runtime_version();
/// What hipDriverGetVersion says. Its numbers on AMD are of other kinds in some releases: only to
/// be shown and compared with itself.
int driver_version();

/// Lanes that run in step: 64 on CDNA, 32 on RDNA and NVIDIA.
int warp_size_of(device_ref device);

}  // namespace hipvmm::detail
