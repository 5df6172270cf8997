// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace hipvmm::test {

/// Bytes that a test fills: `usual`, or as HIPVMM_TEST_BYTES allows, but at least `least`. An
/// emulated GPU fills a megabyte a second.
inline std::size_t test_bytes(std::size_t usual, std::size_t least) {
  const char* const most = std::getenv("HIPVMM_TEST_BYTES");
  if (most == nullptr) return usual;
  return std::clamp<std::size_t>(std::strtoull(most, nullptr, 10), least, usual);
}

}  // namespace hipvmm::test
