// SPDX-License-Identifier: MIT
// printf-like strings: <format> is missing from the oldest compiler that is supported.
#pragma once

#include <cstdint>
#include <string>

namespace stand_in {

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...);

inline unsigned long long wide(std::uint64_t value) { return value; }

template <class Pointer>
std::uint64_t address_of(Pointer* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

inline void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t large_page_bytes = 2 << 20;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value / unit * unit;
}

}  // namespace stand_in
