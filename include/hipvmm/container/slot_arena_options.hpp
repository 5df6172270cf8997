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
  separate,  ///< each slot has blocks of its own
  packed,    ///< slots begin at multiples of 256 bytes and share blocks: for small slots
};

struct slot_arena_options {
  static constexpr std::size_t no_budget = std::numeric_limits<std::size_t>::max();

  std::size_t slots = 0;           ///< at least 1
  std::size_t bytes_per_slot = 0;  ///< the most bytes of a slot in each plane, at least 1
  std::size_t planes = 1;          ///< such as 2 x layers for keys and values
  /// Bytes of a chunk, by which slots grow in each plane; a multiple of the device's granularity.
  /// Zero: the recommended one, at least 2 MiB.
  std::size_t block_bytes = 0;
  slot_layout layout = slot_layout::separate;
  std::size_t budget_bytes = no_budget;  ///< limits slot_arena_statistics::held_bytes
  /// Other objects that lack memory get idle memory of the arena down to this many held bytes.
  std::size_t floor_bytes = 0;
  int priority = 0;  ///< as pool_options::priority
  /// Blocks in each plane that a background thread keeps backed behind each slot in use.
  std::size_t prefetch_blocks = 1;
  /// If a commit() does not fit, it calls this in its thread, and is then tried once more. A batch
  /// that alone exceeds a memory_budget's limit or the device fails without the call.
  /// - It may call trim(), set_budget(), queries, and release() and truncate() for slots that the
  ///   commit does not name (for others they throw std::invalid_argument). acquire(), commit(),
  ///   share_prefix(), make_writable() and set_eviction() throw std::logic_error. It must not move
  ///   or destroy the arena.
  /// - Its exceptions leave commit(), which has changed nothing.
  std::function<void(std::size_t missing_bytes)> evict = {};
  access_list access = {};
  /// Gives and takes chunks. Null: a cache of the arena's own, which counts in held_bytes and keeps
  /// chunks until the budget, trim() or another object that lacks memory takes them.
  chunk_cache* cache = nullptr;
  /// suspend() releases the memory by this tag, resume() allocates it again at the same addresses.
  /// - Spare blocks are released, not saved; a block of share_prefix() is saved and allocated once.
  /// - While the memory sleeps, commit(), share_prefix(), make_writable(), set_budget() and trim()
  ///   throw std::logic_error.
  std::optional<memory_tag> tag = {};
  /// As region_options::registrar. A block that moves to another slot is registered anew.
  std::shared_ptr<memory_registrar> registrar = {};
};

/// Bytes are of all planes together.
struct slot_arena_statistics {
  std::size_t slots_in_use;
  std::size_t used_bytes;    ///< the lengths of all slots
  std::size_t needed_bytes;  ///< of the blocks that hold them, each counted once
  std::size_t spare_bytes;   ///< of other mapped blocks
  std::size_t kept_bytes;    ///< of unmapped chunks in the arena's own cache
  std::size_t held_bytes;    ///< needed, spare and kept bytes; less while the memory sleeps
  std::size_t peak_held_bytes;
  std::size_t shared_bytes;  ///< of additional mappings made by share_prefix()
  std::size_t budget_bytes;
  std::size_t reserved_bytes;       ///< addresses
  std::uint64_t prefetched_blocks;  ///< blocks that the background thread backed so far
  std::uint64_t failed_prefetches;
  std::uint64_t grown_blocks;  ///< blocks that a commit() had to back itself
  std::uint64_t moved_blocks;  ///< blocks taken from spare ones, without hipMemCreate
  std::uint64_t evictions;
};

}  // namespace hipvmm
