// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace hipvmm::detail {

using moment = std::chrono::steady_clock::time_point;

/// Returns when `when` has passed: at once where it has.
void wait_until(moment when) noexcept;

/// How often a caller of wait_until had to wait in this process.
[[nodiscard]] std::uint64_t waits_so_far() noexcept;

}  // namespace hipvmm::detail
