// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <hipvmm/core/driver_calls.hpp>

namespace hipvmm::test {

/// How often the library has freed reservations. The provider also counts the look for records
/// that stay on ROCm 6.
inline std::uint64_t address_frees() {
  const auto all = memory_calls();
  return std::find_if(all.begin(), all.end(),
                      [](const driver_calls& each) {
                        return std::string_view{each.function} == "hipMemAddressFree";
                      })
      ->count;
}

}  // namespace hipvmm::test
