// SPDX-License-Identifier: MIT
#include <hipvmm/core/bytes.hpp>

#include <array>
#include <cstdio>
#include <limits>
#include <stdexcept>

namespace hipvmm {
namespace {

constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();

}  // namespace

std::size_t align_up(std::size_t bytes, std::size_t granularity) {
  const std::size_t over = bytes % granularity;
  return over == 0 ? bytes : add_bytes(bytes, granularity - over);
}

std::size_t bytes_for(std::size_t count, std::size_t element_bytes) {
  if (element_bytes != 0 && count > largest / element_bytes)
    throw std::length_error{std::to_string(count) + " elements of " +
                            std::to_string(element_bytes) + " bytes exceed the address space"};
  return count * element_bytes;
}

std::size_t add_bytes(std::size_t a, std::size_t b) {
  if (b > largest - a)
    throw std::length_error{std::to_string(a) + " + " + std::to_string(b) +
                            " exceeds the address space"};
  return a + b;
}

std::string format_bytes(std::size_t bytes) {
  struct unit {
    std::size_t bytes;
    const char* name;
  };
  constexpr std::array<unit, 4> units{{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}}};
  for (const unit& unit : units) {
    // Small counts read better exact: "1536 B" rather than "1.50 KiB".
    if (bytes < unit.bytes || bytes < 10 * KiB) continue;
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.2f %s",
                  static_cast<double>(bytes) / static_cast<double>(unit.bytes), unit.name);
    return text.data();
  }
  return std::to_string(bytes) + " B";
}

}  // namespace hipvmm
