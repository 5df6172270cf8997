// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/chunk_placement.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

class chunk_cache;

/// How far the chunk after the last one is prepared before commit() needs it.
enum class prefetch_level {
  off,      ///< not at all
  created,  ///< its memory is created; commit() maps it and applies the rights
  mapped,   ///< it is mapped with all rights; commit() only records it
};

/// The fate of a region's addresses when it becomes empty, if memory returns to the device only
/// with its addresses (docs/reference/capability.md). Else the addresses stay.
enum class empty_policy {
  re_reserves,      ///< frees and re-reserves them; base() changes if others took them
  keeps_addresses,  ///< base() is constant; memory is released with the region
};

/// The memory of a growable vector or a pool on a device without virtual memory that passes the
/// probes (capability::path() is memory_path::fallback). A region throws unsupported there.
/// `always` is for devices that have it, too.
enum class without_vmm {
  use_hip_malloc,  ///< a vector holds one allocation and copies when it grows; a pool has slabs
  refuse,          ///< the constructor throws unsupported
  /// As use_hip_malloc, on every device: for calls of HIP that take no chunks, such as
  /// hipIpcGetMemHandle (mr::vmm_pool_resource::export_legacy_block()).
  always,
};

/// How a region makes its chunks and keeps its addresses.
struct region_options {
  /// How the region's chunks can be exported to other processes: region::export_chunks(), and
  /// export_fabric_chunks().
  handle_type shareable = handle_type::none;
  /// The cache that chunks are acquired from and recycled to; nullptr: chunk_cache::shared().
  chunk_cache* cache = nullptr;
  empty_policy when_empty = empty_policy::re_reserves;
  /// The rights to all chunks from the start; none but the owner's by default. They change by
  /// region::grant() and set_access(). If the region waits for work of the owner, it also waits for
  /// work of the named devices.
  access_list access = {};
  /// On which devices commit() and prepare() make chunks.
  /// - Striped: the region's device must be one of the devices. Each of them gets read_write, so
  ///   every two must reach each other.
  /// - Spilled: the budget is a multiple of the device's granularity; `shareable` must be none.
  /// - The stripe of an offset is counted from the first base: rebase() changes no chunk's device.
  ///   A chunk that move_chunk() moves, and one that trim() replaces, stays on its
  ///   device.
  chunk_placement placement = {};
  /// The kind of chunks that commit() and prepare() make; a chunk by which move_range() or trim()
  /// replaces another is of the same kind. If a device makes no uncached chunks, or they would be
  /// memory of the host, the region is unsupported.
  chunk_memory memory = chunk_memory::standard;
  /// The tag by which suspend() releases the memory while the addresses stay, and resume() makes it
  /// again. Exported chunks cannot sleep.
  std::optional<memory_tag> tag = {};
  /// The registrar registers each chunk with a communication library and deregisters it before the
  /// unmap. The region keeps it until all chunks are unmapped, also by threads of the library. A
  /// vector that has no chunks throws unsupported if a registrar is set.
  std::shared_ptr<memory_registrar> registrar = {};
};

/// The treatment by region::trim of a chunk that begins before the new end and reaches beyond it.
/// HIP unmaps whole chunks only.
enum class tail_chunk {
  keep,     ///< it stays; no wait is needed
  replace,  ///< a smaller one replaces it, and trim waits for the copy of the bytes that stay
};

}  // namespace hipvmm
