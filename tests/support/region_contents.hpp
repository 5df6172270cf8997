// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include <hipvmm/vmm/region.hpp>
#include "support/device_bytes.hpp"
#include "support/devices.hpp"

namespace hipvmm::test {

// Enough of each granule to tell one from another without copying all of it.
inline constexpr std::size_t tag_bytes = 256;

/// Writes a tag at both ends of granule `index` that no other granule or `seed` has.
inline void write_tag(const region& region, std::size_t index, std::uint32_t seed,
                      stream_ref stream) {
  const auto tag = pattern(tag_bytes, seed * 1000 + static_cast<std::uint32_t>(index));
  void* const start = advance(region.base(), index * region.granularity());
  copy_async(stream, start, tag.data(), tag_bytes);
  copy(stream, advance(start, region.granularity() - tag_bytes), tag.data(), tag_bytes);
}

inline void write_tags(const region& region, std::size_t first, std::size_t end, std::uint32_t seed,
                       stream_ref stream) {
  for (std::size_t index = first; index < end; ++index) write_tag(region, index, seed, stream);
}

/// Whether granule `index` holds what write_tag wrote.
inline bool has_tag(const region& region, std::size_t index, std::uint32_t seed,
                    stream_ref stream) {
  const auto tag = pattern(tag_bytes, seed * 1000 + static_cast<std::uint32_t>(index));
  void* const start = advance(region.base(), index * region.granularity());
  return read_bytes(stream, start, tag_bytes) == tag &&
         read_bytes(stream, advance(start, region.granularity() - tag_bytes), tag_bytes) == tag;
}

inline void check_tags(const region& region, std::size_t first, std::size_t end, std::uint32_t seed,
                       stream_ref stream) {
  for (std::size_t index = first; index < end; ++index) {
    CAPTURE(index);
    CHECK(has_tag(region, index, seed, stream));
  }
}

}  // namespace hipvmm::test
