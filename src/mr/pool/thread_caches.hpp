// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include "mr/pool/allocator_state.hpp"

// How blocks go from the caches of threads to the index. Called without the state lock.
namespace hipvmm::mr::pool {

/// What the debug log calls a pool, by where its addresses begin.
[[nodiscard]] std::string name_of(const allocator_state& all);

/// Frees what is used at `offset` in the stream of `user`; false, nothing done, unless `bytes` are
/// in use there. Pre: the state lock is held.
[[nodiscard]] bool free_used(allocator_state& all, stream_state& user, std::size_t offset,
                             std::size_t bytes) noexcept;

/// Frees blocks of one size class that caches had.
void free_small_blocks(allocator_state& all, stream_state& user, std::size_t class_index,
                       const std::size_t* offsets, std::size_t count) noexcept;
/// The same for a larger block.
void free_cached_block(allocator_state& all, stream_state& user,
                       const thread_cache::block_at& one) noexcept;
/// What caches of the stream hold becomes free.
void empty_caches(allocator_state& all, stream_state& user) noexcept;

}  // namespace hipvmm::mr::pool
