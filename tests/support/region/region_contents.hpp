// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/device_bytes.hpp"
#include "support/devices.hpp"

namespace hipvmm::test {

/// Whether chunks of several sizes beside a hole can be granted, which ROCm 7.0 to 7.2 refuse.
inline bool takes_any_layout() {
  return !capability_of(first_device).needs(quirk::access_from_base);
}

/// Backs [offset, offset + bytes) by one commit, or by one for each granule if
/// takes_any_layout() is false.
inline void commit_as_granted(region& target, std::size_t offset, std::size_t bytes) {
  const std::size_t step = takes_any_layout() ? bytes : target.granularity();
  for (std::size_t done = 0; done < bytes; done += step) target.commit(offset + done, step);
}

/// Ends the case, saying why, if takes_any_layout() is false.
#define HIPVMM_REQUIRE_ANY_LAYOUT()                                                        \
  do {                                                                                     \
    if (!::hipvmm::test::takes_any_layout()) {                                             \
      MESSAGE(                                                                             \
          "skipped: chunks of several sizes beside a hole cannot be granted (ROCm 7.0 to " \
          "7.2, ROCm/rocm-systems#6977)");                                                 \
      return;                                                                              \
    }                                                                                      \
  } while (false)

/// A region of so many granules of the first device, and a stream for its contents.
template <std::size_t Granules>
struct region_of {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  hipvmm::region region;

  explicit region_of(const region_options& options = {})
      : region{first_device, Granules * unit, options} {}
};

// Enough of each granule to tell one from another without copying all of it.
inline constexpr std::size_t tag_bytes = 256;

/// Writes a tag at both ends of granule `index` that no other granule or `seed` has.
template <typename Memory>
void write_tag(const Memory& region, std::size_t index, std::uint32_t seed, stream_ref stream) {
  const auto tag = pattern(tag_bytes, seed * 1000 + static_cast<std::uint32_t>(index));
  void* const start = advance(region.base(), index * granule());
  copy_async(stream, start, tag.data(), tag_bytes);
  copy(stream, advance(start, granule() - tag_bytes), tag.data(), tag_bytes);
}

template <typename Memory>
void write_tags(const Memory& region, std::size_t first, std::size_t end, std::uint32_t seed,
                stream_ref stream) {
  for (std::size_t index = first; index < end; ++index) write_tag(region, index, seed, stream);
}

/// Whether granule `index` holds the tag of write_tag.
template <typename Memory>
bool has_tag(const Memory& region, std::size_t index, std::uint32_t seed, stream_ref stream) {
  const auto tag = pattern(tag_bytes, seed * 1000 + static_cast<std::uint32_t>(index));
  void* const start = advance(region.base(), index * granule());
  return read_bytes(stream, start, tag_bytes) == tag &&
         read_bytes(stream, advance(start, granule() - tag_bytes), tag_bytes) == tag;
}

template <typename Memory>
void check_tags(const Memory& region, std::size_t first, std::size_t end, std::uint32_t seed,
                stream_ref stream) {
  for (std::size_t index = first; index < end; ++index) {
    CAPTURE(index);
    CHECK(has_tag(region, index, seed, stream));
  }
}

}  // namespace hipvmm::test
