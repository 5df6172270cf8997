// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <hipvmm/mr/pool_snapshot.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include "mr/pool/allocator/pool_blocks.hpp"

namespace hipvmm::mr::pool {

/// pool_statistics without `callbacks`, and two numbers that only the library uses.
struct allocator_statistics : pool_statistics {
  /// Longest run of addresses that one request could get, with new memory if there is none.
  std::size_t largest_place = 0;
  std::size_t states = 0;
};

/// Computes the current usage under the state lock. It scans cached blocks, free blocks that are
/// next to others or may hold a chunk, and addresses without memory. Throws: std::bad_alloc.
/// `fresh`: the bytes that the source can create; computes largest_possible, which is 0 otherwise.
[[nodiscard]] allocator_statistics usage_snapshot(pool_blocks& blocks,
                                                  std::optional<new_memory> fresh = std::nullopt);

/// Whether the pool may serve a request of `bytes` after the release of all idle chunks, if the
/// source gives `fresh` bytes more. False is definite; true means only that a release is worth
/// trying. True without a check of places if chunks do not move or a thread works on some block.
/// Throws: std::bad_alloc.
[[nodiscard]] bool may_release_serve(pool_blocks& blocks, std::size_t bytes, std::size_t fresh);

/// Returns the counts alone: no share of a stream, no largest request. Memory in caches counts as
/// used. Takes the state lock, but visits no memory.
[[nodiscard]] pool_statistics counters(pool_blocks& blocks);
/// Returns the bytes held and allocated. Holds the state lock for a visit of the caches only.
[[nodiscard]] pool_usage held_and_used(pool_blocks& blocks);

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
