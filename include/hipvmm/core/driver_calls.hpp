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

/// Number and time of the library's calls of nine HIP functions for memory and addresses since the
/// process began. Calls of hipFree that serve only as a wait do not count. One row for each
/// function, called or not. Thread-safe.
[[nodiscard]] std::vector<driver_calls> memory_calls();

}  // namespace hipvmm
