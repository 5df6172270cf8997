// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

#include "support/device_bytes.hpp"

namespace hipvmm::test {

/// An element of `Bytes` bytes: sizes that no power of two divides reveal wrong offsets.
template <std::size_t Bytes>
struct element {
  std::array<unsigned char, Bytes> bytes;

  friend bool operator==(const element& a, const element& b) { return a.bytes == b.bytes; }
};

template <std::size_t Bytes>
std::ostream& operator<<(std::ostream& out, const element<Bytes>& value) {
  return out << "element<" << Bytes << ">{" << int{value.bytes[0]} << "...}";
}

using element8 = element<8>;
using element12 = element<12>;
using element300 = element<300>;
/// As large as a chunk.
using granule_element = element<std::size_t{2} << 20>;

/// The element number `index` of a series.
template <typename Element>
Element numbered(std::size_t index) {
  Element result;
  write_pattern(result.bytes.data(), sizeof(Element), static_cast<std::uint32_t>(index) * 2 + 1);
  return result;
}

/// The elements [first, first + count) of the series.
template <typename Element>
std::vector<Element> series(std::size_t first, std::size_t count) {
  std::vector<Element> result;
  result.reserve(count);
  for (std::size_t index = first; index < first + count; ++index)
    result.push_back(numbered<Element>(index));
  return result;
}

}  // namespace hipvmm::test
