// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// The device's UUID as 32 hexadecimal digits, or "none" where the runtime knows none.
std::string uuid_of(device_ref device);

/// Returns the result of hipRuntimeGetVersion: HIP's number on AMD, CUDA's on NVIDIA;
/// hip_compat::is_cuda_version distinguishes them.
int runtime_version();
/// Returns the result of hipDriverGetVersion. Its numbers on AMD are of other kinds in some
/// releases: use them only for display and for comparison with themselves.
int driver_version();

/// The number of lanes that run in lockstep: 64 on CDNA, 32 on RDNA and NVIDIA.
int warp_size_of(device_ref device);

}  // namespace hipvmm::detail
