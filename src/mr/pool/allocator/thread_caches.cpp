// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/thread_caches.hpp"

#include <array>
#include <cstdio>

namespace hipvmm::mr::pool {

std::string name_of(const allocator_state& all) {
  const std::uintptr_t start = all.start.load(std::memory_order_relaxed);
  if (start == 0) return "a pool on slabs";
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "the pool at %#zx", static_cast<std::size_t>(start));
  return text.data();
}

bool free_used(allocator_state& all, stream_state& user, std::size_t offset, std::size_t bytes,
               bool has_fence) noexcept {
  block* const freed = all.index.take_used(offset, bytes);
  if (freed == nullptr) return false;
  all.growths_in_a_row = 0;
  freed->owner = &user;
  freed->epoch = user.note_free(has_fence);
  all.index.make_free(*freed);
  return true;
}

void free_small_blocks(allocator_state& all, stream_state& user, std::size_t class_index,
                       const std::size_t* offsets, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) all.small_blocks.remove(offsets[i]);
  const allocator_state::state_lock lock{all.state_mutex};
  for (std::size_t i = 0; i < count; ++i)
    static_cast<void>(free_used(all, user, offsets[i], classes.bytes[class_index]));
}

void free_cached_block(allocator_state& all, stream_state& user,
                       const thread_cache::block_at& one) noexcept {
  all.small_blocks.remove(one.offset);
  const allocator_state::state_lock lock{all.state_mutex};
  static_cast<void>(free_used(all, user, one.offset, one.bytes));
}

void empty_caches(allocator_state& all, stream_state& user) noexcept {
  user.for_each_cache([&](thread_cache& cache) {
    // A miss empties all caches, and next to all of them have nothing.
    if (cache.is_empty()) return;
    const block_carrier carrier{all};
    std::array<std::size_t, thread_cache::most> blocks{};
    for (std::size_t i = 0; const std::size_t count = cache.take_next(i, blocks.data()); ++i)
      free_small_blocks(all, user, i, blocks.data(), count);
    const thread_cache::block_at one = cache.take_block();
    if (one.bytes != 0) free_cached_block(all, user, one);
  });
}

}  // namespace hipvmm::mr::pool
