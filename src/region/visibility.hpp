// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace hipvmm::detail {

using moment = std::chrono::steady_clock::time_point;

/// Waits until `when`; returns at once where it has passed.
void wait_until(moment when) noexcept;

/// How often callers of wait_until() had to wait in this process.
[[nodiscard]] std::uint64_t waits_so_far() noexcept;

}  // namespace hipvmm::detail
