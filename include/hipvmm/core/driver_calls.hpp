// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hipvmm {

/// Calls of one HIP function, and the time within them.
struct driver_calls {
  std::string_view function;
  std::uint64_t count = 0;
  double seconds = 0;
};

/// What this process has spent so far, in all its threads, on the library's calls of the functions
/// that take and give back memory and addresses; a row for each, whether or not it was called. The
/// difference of two answers is what happened between them. Any thread may ask.
[[nodiscard]] std::vector<driver_calls> memory_calls();

}  // namespace hipvmm
