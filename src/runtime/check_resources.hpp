// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <source_location>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// Like check(), for a call that allocates `bytes` of `device` or descriptors for them. `bytes` is
/// 0 if the call does not say how much, as for streams and events. Throws out_of_memory
/// - if HIP reports it;
/// - for any failure with hardly a descriptor left, which is then the cause: on ROCm 7.14 every
///   chunk costs one, and their lack is reported as lack of memory (ROCm/rocm-systems#10604).
void check_resources(hipError_t result, const char* call, device_ref device, std::size_t bytes,
                     std::source_location where = std::source_location::current());

/// Returns the retired bytes of `device`, for the message of out_of_memory.
using retired_bytes_function = std::size_t (*)(device_ref device);

/// The layer that retires memory sets it when it first does.
void set_retired_bytes_function(retired_bytes_function function) noexcept;

}  // namespace hipvmm::detail
