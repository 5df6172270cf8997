// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mr/pool/block.hpp"

namespace hipvmm::mr::pool {

/// A chunk that lies idle as a whole.
struct idle_chunk {
  std::size_t offset;
  std::size_t bytes;
  std::uint64_t order;    ///< of creation
  std::size_t run_bytes;  ///< of the stretch of free blocks that it lies in
  block* first;           ///< the block that it begins in, or one before
};

/// Where a request could go.
struct place {
  block* first = nullptr;     ///< block that it begins in; nullptr: there is no such place
  std::size_t at = 0;         ///< offset that it begins at
  block* unmapped = nullptr;  ///< addresses to be backed for it; nullptr where all of it lies free
  std::size_t map_at = 0;     ///< offset where the backing begins in these
  std::size_t map_bytes = 0;  ///< least that must be backed
  std::size_t map_room = 0;   ///< most that can be backed
};

/// What one walk along all addresses found for a request.
struct placement_scan {
  place free_run;                   ///< smallest stretch of free blocks that holds it
  place least;                      ///< place for it that needs the least backing
  place widest;                     ///< place for it where the most can be backed
  std::vector<idle_chunk> sources;  ///< chunks that could be moved
};

}  // namespace hipvmm::mr::pool
