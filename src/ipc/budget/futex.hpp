// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hipvmm::detail {

/// Waits in shared memory while `word` is `seen`, for `limit` at most. May return earlier.
void wait_while_equal(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                      std::chrono::milliseconds limit) noexcept;
/// Changes `word` and wakes all processes and threads that wait for that.
void change_and_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace hipvmm::detail
