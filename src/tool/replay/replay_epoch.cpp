// SPDX-License-Identifier: MIT
#include "tool/replay/replay_epoch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hipvmm::tool {

std::uint64_t percentile_of(const std::vector<std::uint64_t>& ascending, double part) {
  if (ascending.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(std::ceil(part * static_cast<double>(ascending.size())));
  return ascending[std::clamp<std::size_t>(rank, 1, ascending.size()) - 1];
}

call_latency summarize_calls(std::vector<std::uint64_t>& nanoseconds) {
  std::sort(nanoseconds.begin(), nanoseconds.end());
  return {nanoseconds.size(),
          std::accumulate(nanoseconds.begin(), nanoseconds.end(), std::uint64_t{0}),
          percentile_of(nanoseconds, 0.5), percentile_of(nanoseconds, 0.99),
          percentile_of(nanoseconds, 1)};
}

}  // namespace hipvmm::tool
