// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include "mr/pool/allocator/allocator_state.hpp"

// Functions that move blocks from the caches of threads to the index. Called without the state
// lock.
namespace hipvmm::mr::pool {

/// The name of a pool in the debug log, by the start of its addresses.
[[nodiscard]] std::string name_of(const allocator_state& all);

/// Frees the used block at `offset` in the stream of `user`. Returns false, with nothing done,
/// unless `bytes` are in use there. Pre: the state lock is held.
[[nodiscard]] bool free_used(allocator_state& all, stream_state& user, std::size_t offset,
                             std::size_t bytes, bool has_fence = false) noexcept;

/// Frees blocks of one size class that were in caches.
void free_small_blocks(allocator_state& all, stream_state& user, std::size_t class_index,
                       const std::size_t* offsets, std::size_t count) noexcept;
/// Frees a larger block that was in a cache.
void free_cached_block(allocator_state& all, stream_state& user,
                       const thread_cache::block_at& one) noexcept;
/// Frees all memory in the caches of the stream.
void empty_caches(allocator_state& all, stream_state& user) noexcept;

}  // namespace hipvmm::mr::pool
