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

/// The steps that prepare() takes for the next chunk ahead of commit().
enum class prefetch_level {
  off,
  created,  ///< creates its memory
  mapped,   ///< creates and maps it, and sets its rights
};

/// Treatment of a region's addresses when chunks are released, on devices that return memory only
/// when its addresses are freed (docs/reference/capability.md).
enum class empty_policy {
  re_reserves,      ///< frees and reserves them again: region::base() may change
  keeps_addresses,  ///< region::base() stays; memory may return only when the region ends
};

/// Memory of a vector or pool on a device without usable virtual memory (memory_path::fallback). A
/// region throws unsupported there.
enum class without_vmm {
  use_hip_malloc,  ///< a vector has one allocation, copied at each growth; a pool has slabs
  refuse,          ///< the constructor throws unsupported
  /// As use_hip_malloc, on every device: for calls of HIP that refuse chunks, such as
  /// hipIpcGetMemHandle (mr::vmm_pool_resource::export_legacy_block()).
  always,
};

struct region_options {
  handle_type shareable = handle_type::none;  ///< for export_chunks(), export_fabric_chunks()
  chunk_cache* cache = nullptr;               ///< nullptr: chunk_cache::shared()
  empty_policy when_empty = empty_policy::re_reserves;
  access_list access = {};  ///< initial rights to all chunks; by default the owner's alone
  /// - Striped: the region's device must be one of the stripes' devices. Each of these gets
  ///   read_write unless `access` names it. Each device with a right must reach all stripes.
  ///   Stripes count from the first base, also after rebase(). move_chunk() and trim() change no
  ///   chunk's device.
  /// - Spilled: the budget is a multiple of the device's granularity; `shareable` must be none.
  chunk_placement placement = {};
  /// The kind of new chunks. The constructor throws unsupported for uncached if a device makes no
  /// such chunks, or if the placement spills to the host.
  chunk_memory memory = chunk_memory::standard;
  std::optional<memory_tag> tag = {};  ///< for suspend()
  /// Registers each chunk after its map and deregisters it before its unmap, also in threads of the
  /// library. The region keeps it until all chunks are unmapped. A vector without chunks throws
  /// unsupported.
  std::shared_ptr<memory_registrar> registrar = {};
};

/// Treatment by region::trim() of a chunk across the new end: HIP unmaps only whole chunks.
enum class tail_chunk {
  keep,
  replace,  ///< by a smaller one, if that pays; waits for the copy of the bytes that stay
};

}  // namespace hipvmm
