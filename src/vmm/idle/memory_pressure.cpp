// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/idle/memory_pressure.hpp>

#include <array>

namespace hipvmm {

const char* to_string(pressure_level level) noexcept {
  constexpr std::array<const char*, 4> names{"none", "low", "high", "critical"};
  const auto index = static_cast<std::size_t>(level);
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace hipvmm
