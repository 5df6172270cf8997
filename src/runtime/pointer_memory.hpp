// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// Returns the device whose memory `pointer` is in, from hipMalloc, a pool or a mapping. Empty for
/// host memory, managed memory and memory unknown to HIP.
[[nodiscard]] std::optional<device_ref> device_of_memory(const void* pointer);

}  // namespace hipvmm::detail
