// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <hipvmm/mr/pool_snapshot.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "mr/pool/allocator/pool_blocks.hpp"

namespace hipvmm::mr::pool {

/// Usage of a pool's memory, in bytes.
struct usage {
  std::size_t address_bytes = 0;   ///< reserved
  std::size_t physical_bytes = 0;  ///< held from the device
  std::size_t mapped_bytes = 0;    ///< that, and old addresses of moved chunks
  std::size_t used_bytes = 0;      ///< allocated by callers
  std::size_t largest_run = 0;     ///< longest run of free memory, including caches
  std::size_t largest_moved = 0;   ///< that by moves of idle chunks, before new memory
  /// The same with new memory of the source; 0 unless it was asked for.
  std::size_t largest_possible = 0;
  /// Longest run of addresses that one request could get, with new memory where there is none.
  std::size_t largest_place = 0;
  std::size_t blocks = 0;
  std::size_t states = 0;
  struct stream_share {
    stream_ref stream;
    std::size_t free_bytes;
  };
  std::vector<stream_share> streams;  ///< the first: idle memory
};

/// Computes the current usage under the state lock. It scans cached blocks, free blocks that are
/// next to others or may hold a chunk, and addresses without memory. Throws: std::bad_alloc.
/// `fresh`: what the source can give; computes usage::largest_possible.
[[nodiscard]] usage usage_snapshot(pool_blocks& blocks, const memory_backend& memory,
                                   std::optional<new_memory> fresh = std::nullopt);

/// What is held and allocated, under the state lock, which is held for a visit of the caches only.
[[nodiscard]] pool_usage held_and_used(pool_blocks& blocks);

/// A block with memory.
struct listed_block {
  std::size_t offset;
  std::size_t bytes;
  block_use use;
  std::uintptr_t stream;  ///< handle of its stream; 0: none, or gone
};

/// Lists all blocks with memory, by offset. Blocks that a thread is just working on are left out.
/// Pre: the slow-path lock is held. Throws: std::bad_alloc.
[[nodiscard]] std::vector<listed_block> list_blocks(pool_blocks& blocks);

}  // namespace hipvmm::mr::pool
