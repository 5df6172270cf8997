// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <source_location>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// Like check(), for a call that allocates `bytes` of `device` (0: unknown) or descriptors. Throws
/// out_of_memory also for any failure with hardly a descriptor left: on ROCm 7.14 every chunk costs
/// one, and HIP reports lack of memory (ROCm/rocm-systems#10604).
void check_resources(hipError_t result, const char* call, device_ref device, std::size_t bytes,
                     std::source_location where = std::source_location::current());

using retired_bytes_function = std::size_t (*)(device_ref device);

/// For the message of out_of_memory.
void set_retired_bytes_function(retired_bytes_function function) noexcept;

}  // namespace hipvmm::detail
