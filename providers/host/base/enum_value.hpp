// SPDX-License-Identifier: MIT
#pragma once

#include <cstring>
#include <type_traits>

namespace hipvmm::host_provider {

/// The number in an enumeration that a C program passed. It may be no value of the enumeration, so
/// it must not be read as one before it is known to be.
template <class Enum>
int value_of(const Enum& passed) noexcept {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int value = 0;
  std::memcpy(&value, &passed, sizeof(value));
  return value;
}

}  // namespace hipvmm::host_provider
