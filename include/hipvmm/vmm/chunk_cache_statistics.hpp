// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hipvmm {

/// If `dropped` grows as fast as `misses`, the byte limit is too low for the memory that the
/// program releases and reuses, or, if `expired` grows too, the retention is too short.
struct chunk_cache_statistics {
  std::size_t bytes;        ///< bytes held now
  std::size_t chunks;       ///< chunks held now
  std::size_t peak_bytes;   ///< most bytes held at a time; for all devices the sum of their peaks
  std::size_t peak_chunks;  ///< most chunks held at a time, as peak_bytes
  std::size_t hits;         ///< acquisitions served from the cache
  std::size_t misses;       ///< acquisitions that had to create a chunk
  std::size_t refused;      ///< of these: failed at last for lack of memory or descriptors
  std::size_t dropped;      ///< chunks released to the driver: shared with others, over
                            ///< the byte limit or the descriptor budget, by trim, by a full device,
                            ///< expired
  std::size_t expired;      ///< of these: kept for the retention without being acquired
};

}  // namespace hipvmm
