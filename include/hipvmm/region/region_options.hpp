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

/// How far prepare() goes with the next chunk before commit() needs it.
enum class prefetch_level {
  off,      ///< not at all
  created,  ///< its memory is created; commit() maps it and applies the rights
  mapped,   ///< it is mapped with all rights; commit() only records it
};

/// The fate of a region's addresses when it becomes empty, if memory returns to the device only
/// with its addresses (docs/reference/capability.md). Else they stay.
enum class empty_policy {
  re_reserves,      ///< frees and re-reserves them; base() changes if others took them
  keeps_addresses,  ///< base() is constant; memory is released with the region
};

/// The memory of a growable vector or a pool on a device that lacks virtual memory or fails the
/// probes (capability::path() is memory_path::fallback). A region throws unsupported there.
enum class without_vmm {
  use_hip_malloc,  ///< a vector holds one allocation and copies when it grows; a pool has slabs
  refuse,          ///< the constructor throws unsupported
  /// As use_hip_malloc, on every device: for calls of HIP that take no chunks, such as
  /// hipIpcGetMemHandle (mr::vmm_pool_resource::export_legacy_block()).
  always,
};

struct region_options {
  /// The handles by which export_chunks() and export_fabric_chunks() export to other processes.
  handle_type shareable = handle_type::none;
  /// Gives and takes chunks; nullptr: chunk_cache::shared().
  chunk_cache* cache = nullptr;
  empty_policy when_empty = empty_policy::re_reserves;
  /// The rights to all chunks from the start: by default the owner's alone. If the region waits for
  /// work of the owner, it also waits for work of the named devices.
  access_list access = {};
  /// The devices on which commit() and prepare() make chunks.
  /// - Striped: the region's device must be one of them. Each gets read_write unless `access` names
  ///   it; each device with a right must reach all stripes. Stripes are counted from the first
  ///   base: rebase() changes no chunk's device, and a chunk that move_chunk() moves or trim()
  ///   replaces stays on its device.
  /// - Spilled: the budget is a multiple of the device's granularity; `shareable` must be none.
  chunk_placement placement = {};
  /// The kind of the chunks that growth makes; move_range() and trim() replace a chunk by one of
  /// its own kind. For uncached, the constructor throws unsupported if a device makes no such
  /// chunks, or if the placement spills to the host.
  chunk_memory memory = chunk_memory::standard;
  /// The tag by which suspend() releases the memory while the addresses stay. Exported chunks
  /// cannot sleep.
  std::optional<memory_tag> tag = {};
  /// Registers each chunk with a communication library and deregisters it before the unmap, also in
  /// hipvmm's threads: the region keeps the registrar until all chunks are unmapped. A vector
  /// without chunks throws unsupported if there is one.
  std::shared_ptr<memory_registrar> registrar = {};
};

/// HIP unmaps whole chunks only. So region::trim() treats a chunk that begins before the new end
/// and reaches beyond it in one of these ways.
enum class tail_chunk {
  keep,     ///< it stays; no wait is needed
  replace,  ///< a smaller one replaces it, and trim waits for the copy of the bytes that stay
};

}  // namespace hipvmm
