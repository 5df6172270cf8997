// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
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
[[nodiscard]] inline std::uint64_t percentile_of(const std::vector<std::uint64_t>& ascending,
                                                 double part) {
  if (ascending.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(std::ceil(part * static_cast<double>(ascending.size())));
  return ascending[std::clamp<std::size_t>(rank, 1, ascending.size()) - 1];
}

/// Sorts `nanoseconds`, one value for each call, and summarizes them; all zero without calls.
[[nodiscard]] inline call_latency summarize_calls(std::vector<std::uint64_t>& nanoseconds) {
  std::sort(nanoseconds.begin(), nanoseconds.end());
  return {nanoseconds.size(),
          std::accumulate(nanoseconds.begin(), nanoseconds.end(), std::uint64_t{0}),
          percentile_of(nanoseconds, 0.5), percentile_of(nanoseconds, 0.99),
          percentile_of(nanoseconds, 1)};
}

}  // namespace hipvmm::tool
