// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <hipvmm/runtime/device.hpp>

// Records which devices have exchanged memory by copies of the library. A copy between two devices
// needs no access right, because it may go through the host, and its stream may belong to either
// device.
namespace hipvmm::detail {

/// Records for the life of the process that a copy between memory of both devices was submitted.
void note_peer_copy(device_ref one, device_ref other) noexcept;

/// Returns the first device after ordinal `after` that note_peer_copy() named together with
/// `device`.
[[nodiscard]] std::optional<device_ref> next_copied_with(device_ref device, int after) noexcept;

}  // namespace hipvmm::detail
