// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <hipvmm/version.hpp>  // IWYU pragma: keep: refuses compilers before C++17

namespace hipvmm {

struct driver_calls {
  std::string_view function;
  std::uint64_t count = 0;
  double seconds = 0;
};

/// Counts and times the library's HIP calls that allocate and free memory and addresses, of all
/// threads since the process began: subtract two results for an interval. One row for each
/// function, called or not. Any thread may call it.
[[nodiscard]] std::vector<driver_calls> memory_calls();

}  // namespace hipvmm
