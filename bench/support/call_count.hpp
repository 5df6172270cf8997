// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

namespace bench {

/// HIP calls of this process so far.
struct call_count {
  std::uint64_t all = 0;
  std::uint64_t copies = 0;  ///< those that move bytes
};

/// None if the provider does not count.
[[nodiscard]] std::optional<call_count> hip_calls();

}  // namespace bench
