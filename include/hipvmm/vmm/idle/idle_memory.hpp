// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hipvmm {

/// Counts of requests that lacked memory of a device or room in a memory_budget, and asked this
/// process's pools, arenas and vectors for idle memory.
struct idle_memory_statistics {
  std::uint64_t asked;            ///< requests that asked
  std::uint64_t refused;          ///< of these: nothing was idle
  std::size_t moved_bytes;        ///< chunks that a request got as they were
  std::size_t released_bytes;     ///< released to the device
  std::chrono::nanoseconds time;  ///< of all requests together
};

/// Any thread may call it.
[[nodiscard]] idle_memory_statistics idle_memory() noexcept;

}  // namespace hipvmm
