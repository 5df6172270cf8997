// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>

namespace hipvmm {

class chunk_cache;

enum class slot_layout {
  /// Each begins at a block of its own.
  separate,
  /// One begins behind the end of another, at a multiple of 256 bytes, and shares a block with its
  /// neighbours. For slots of less than a few blocks.
  packed,
};

struct slot_arena_options {
  static constexpr std::size_t no_budget = std::numeric_limits<std::size_t>::max();

  std::size_t slots = 0;           ///< number of slots, at least 1
  std::size_t bytes_per_slot = 0;  ///< the most bytes of a slot in each plane, at least 1
  std::size_t planes = 1;          ///< for each slot, such as 2 x layers for keys and values
  /// Bytes of a chunk, by which slots grow in each plane; a multiple of the device's granularity.
  /// Zero: the recommended one, at least 2 MiB.
  std::size_t block_bytes = 0;
  slot_layout layout = slot_layout::separate;
  /// The most bytes of memory that the arena holds, see slot_arena_statistics::held_bytes.
  std::size_t budget_bytes = no_budget;
  /// Other objects that lack memory get idle memory of the arena beyond these bytes of held_bytes.
  std::size_t floor_bytes = 0;
  /// As pool_options::priority.
  int priority = 0;
  /// Blocks in each plane that a background thread keeps backed behind each slot in use.
  std::size_t prefetch_blocks = 1;
  /// Called if a commit() does not fit, in its thread, with the bytes that the slots lack. Then the
  /// commit is tried once more.
  /// - It may call trim(), set_budget(), queries, and release() and truncate() for slots that the
  ///   commit does not name (for others they throw std::invalid_argument). Calls that get slots
  ///   memory, and set_eviction(), throw std::logic_error. It must not move or destroy the arena.
  /// - Its exceptions leave commit(), which has changed nothing.
  std::function<void(std::size_t missing_bytes)> evict = {};
  /// Rights to all slots, as region_options::access.
  access_list access = {};
  /// The cache that chunks come from and return to; null: a cache of the arena's own, which keeps
  /// every chunk until the budget or trim() takes it.
  chunk_cache* cache = nullptr;
  /// suspend() releases the memory by this tag, resume() allocates it again at the same addresses.
  /// - Spare blocks are released, not saved; a block of share_prefix() is saved and allocated once.
  /// - While it sleeps, slots may be released, truncated and acquired; commit(), share_prefix(),
  ///   make_writable(), set_budget() and trim() throw std::logic_error.
  std::optional<memory_tag> tag = {};
  /// Registrar of all blocks, as region_options::registrar; moved blocks are removed and added.
  std::shared_ptr<memory_registrar> registrar = {};
};

/// Counts of a slot_arena. Bytes are of all planes together.
struct slot_arena_statistics {
  std::size_t slots_in_use;
  std::size_t used_bytes;    ///< the lengths of all slots
  std::size_t needed_bytes;  ///< of the blocks that hold them, each counted once
  std::size_t spare_bytes;   ///< of blocks mapped beyond: prefetched, or left by a released slot
  std::size_t kept_bytes;    ///< of chunks in the arena's own cache, mapped nowhere
  std::size_t held_bytes;    ///< the sum of these, which the budget limits; less while it sleeps
  std::size_t peak_held_bytes;
  std::size_t shared_bytes;  ///< of additional mappings made by share_prefix()
  std::size_t budget_bytes;
  std::size_t reserved_bytes;       ///< addresses
  std::uint64_t prefetched_blocks;  ///< blocks that the background thread backed so far
  std::uint64_t failed_prefetches;  ///< for lack of memory, mostly
  std::uint64_t grown_blocks;       ///< blocks that a commit() had to back itself
  std::uint64_t moved_blocks;       ///< blocks that one slot gave to another, without hipMemCreate
  std::uint64_t evictions;          ///< calls of slot_arena_options::evict
};

}  // namespace hipvmm
