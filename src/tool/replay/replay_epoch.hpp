// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hipvmm::tool {

/// The number and duration of the calls of one kind.
struct call_latency {
  std::size_t calls = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t p50_ns = 0;  ///< that half of the calls do not exceed
  std::uint64_t p99_ns = 0;
  std::uint64_t longest_ns = 0;
};

/// One pass through the whole trace.
struct replay_epoch {
  call_latency allocate = {};
  call_latency deallocate = {};  ///< of the blocks that the trace frees
  std::size_t peak_requested = 0;
  std::size_t peak_physical = 0;
  double seconds = 0;             ///< from the first event until the last call has returned
  double seconds_until_done = 0;  ///< from the first event until all streams are idle
};

/// The value that `part` of `ascending` do not exceed; 0 when it is empty.
[[nodiscard]] std::uint64_t percentile_of(const std::vector<std::uint64_t>& ascending, double part);

/// Sorts `nanoseconds`, one value for each call, and summarizes them; all zero without calls.
[[nodiscard]] call_latency summarize_calls(std::vector<std::uint64_t>& nanoseconds);

}  // namespace hipvmm::tool
