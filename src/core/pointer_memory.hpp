// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <hipvmm/core/device.hpp>

namespace hipvmm::detail {

/// The device whose memory `pointer` is in, by hipMalloc, a pool or a mapping; nothing for memory
/// of the host, managed memory and what HIP does not know.
[[nodiscard]] std::optional<device_ref> device_of_memory(const void* pointer);

}  // namespace hipvmm::detail
