// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

class chunk_cache;

/// How far the chunk after the last one is prepared before commit() needs it.
enum class prefetch_level {
  off,      ///< not at all
  created,  ///< its memory is created; commit() maps it and applies the rights
  mapped,   ///< it is mapped with all rights; commit() only records it
};

/// What a region does with its addresses when it becomes empty, where HIP releases memory only with
/// them (quirk::re_reserve). Elsewhere the addresses stay.
enum class empty_policy {
  re_reserves,      ///< frees and re-reserves them; base() changes if others took them
  keeps_addresses,  ///< base() is constant; memory is released with the region
  renews_addresses = re_reserves,  // the name until 0.2
};

/// What a growable vector or a pool does on a device whose virtual memory is missing or failed a
/// probe (capability::path() is memory_path::fallback). A region throws unsupported there.
enum class without_vmm {
  use_hip_malloc,  ///< a vector holds one allocation and copies when it grows; a pool has slabs
  refuse,          ///< the constructor throws unsupported
};

/// How a region makes its chunks and keeps its addresses.
struct region_options {
  /// Whether the region's chunks can be exported to other processes: region::export_chunks().
  handle_type shareable = handle_type::none;
  /// The cache that chunks are acquired from and recycled to; nullptr: chunk_cache::shared().
  chunk_cache* cache = nullptr;
  empty_policy when_empty = empty_policy::re_reserves;
};

/// What region::trim does with a chunk that begins before the new end and reaches beyond it. HIP
/// unmaps whole chunks only.
enum class tail_chunk {
  keep,     ///< it stays; no wait is needed
  replace,  ///< a smaller one replaces it, and trim waits for the copy of the bytes that stay
};

// The names until 0.2.
using ahead = prefetch_level;
using emptied = empty_policy;
using straddling_chunk = tail_chunk;

}  // namespace hipvmm
