// SPDX-License-Identifier: MIT
#include "region/backing.hpp"

#include <utility>

namespace hipvmm {

void recycle_all(backing_map& backings, const address_range& range, chunk_cache& cache) noexcept {
  for (auto& entry : backings) entry.second.unmap_in(range);
  // A chunk that HIP will not unmap must not be used again.
  for (auto& entry : backings) {
    backing& one = entry.second;
    if (one.map.empty() && !one.chunk.empty() && !range.refused().keep_chunk(one.chunk))
      cache.recycle(std::move(one.chunk));
  }
  backings.clear();
}

void release_all(backing_map& backings, const address_range& range) noexcept {
  for (auto& entry : backings) {
    entry.second.unmap_in(range);
    range.refused().keep_chunk(entry.second.chunk);
  }
  backings.clear();
}

}  // namespace hipvmm
