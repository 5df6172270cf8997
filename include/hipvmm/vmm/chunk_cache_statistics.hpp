// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hipvmm {

/// If `dropped` grows as fast as `misses`, the byte limit is too low or, if `expired` grows too,
/// the retention too short.
struct chunk_cache_statistics {
  std::size_t bytes;
  std::size_t chunks;
  std::size_t peak_bytes;   ///< for all devices the sum of their peaks
  std::size_t peak_chunks;  ///< as peak_bytes
  std::size_t hits;         ///< acquisitions served from the cache
  std::size_t misses;       ///< acquisitions of standard memory that created a chunk
  std::size_t refused;      ///< acquisitions that failed
  std::size_t dropped;      ///< chunks released to the driver
  std::size_t expired;      ///< of these, by the retention
};

}  // namespace hipvmm
