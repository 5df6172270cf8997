// SPDX-License-Identifier: MIT
#pragma once

#include <cstring>
#include <type_traits>

namespace hipvmm::host_provider {

/// The number in an enumeration that a C program passed. It may be no enumerator, so it must be
/// checked before it is read as one.
template <class Enum>
int value_of(const Enum& passed) noexcept {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int value = 0;
  std::memcpy(&value, &passed, sizeof(value));
  return value;
}

}  // namespace hipvmm::host_provider
