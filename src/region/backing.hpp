// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "region/visibility.hpp"
#include "vmm/address_range.hpp"

namespace hipvmm {

/// A chunk and its mapping, or a mapping without its chunk that a moved chunk left behind. The
/// members' order unmaps before it releases.
struct backing {
  physical_chunk chunk;
  mapping map;
  detail::moment visible = {};                             // from when on all work sees the bytes
  ihipMemGenericAllocationHandle* elsewhere = nullptr;     // the chunk that moved
  std::uint64_t serial = 0;                                // chunk_view::serial, once in the region
  std::shared_ptr<const access_map> own_rights = nullptr;  // where they differ from the region's

  [[nodiscard]] std::size_t bytes() const noexcept {
    return chunk.empty() ? map.bytes() : chunk.bytes();
  }
  /// Unmaps the chunk. What HIP refuses is reported and kept in `range`, with the chunk.
  void unmap_in(const address_range& range) noexcept {
    range.refused().unmap_or_keep(map, chunk.empty() ? elsewhere : chunk.get(), &chunk);
  }
};

/// By offset in the region. Adjacent backings may touch, never overlap.
using backing_map = std::map<std::size_t, backing>;

/// Unmaps all `backings`, which are mapped in `range`, and recycles their chunks to `cache`. What
/// HIP refuses is reported and kept in `range`.
void recycle_all(backing_map& backings, const address_range& range, chunk_cache& cache) noexcept;
/// The same, but releases the chunks to the device.
void release_all(backing_map& backings, const address_range& range) noexcept;

}  // namespace hipvmm
