// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::test {

using byte_vector = std::vector<unsigned char>;

/// Writes `bytes` bytes that differ from one `seed` to another and from one position to the next.
inline void write_pattern(unsigned char* at, std::size_t bytes, std::uint32_t seed) {
  std::uint32_t state = seed * 2654435761u + 1;
  // By pointers: without optimisation a vector's iterators take five times as long.
  for (const unsigned char* const end = at + bytes; at != end; ++at) {
    state = state * 1664525u + 1013904223u;
    *at = static_cast<unsigned char>(state >> 24);
  }
}

inline byte_vector pattern(std::size_t bytes, std::uint32_t seed) {
  byte_vector result(bytes);
  write_pattern(result.data(), bytes, seed);
  return result;
}

inline void write_bytes(stream_ref stream, void* destination, const byte_vector& bytes) {
  copy(stream, destination, bytes.data(), bytes.size());
}

inline byte_vector read_bytes(stream_ref stream, const void* source, std::size_t bytes) {
  byte_vector result(bytes);
  copy(stream, result.data(), source, bytes);
  return result;
}

/// The address `bytes` bytes behind `base`.
inline void* advance(void* base, std::size_t bytes) { return static_cast<char*>(base) + bytes; }

}  // namespace hipvmm::test
