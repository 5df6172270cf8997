// SPDX-License-Identifier: MIT
// Requests served by threads' caches.
#include <algorithm>
#include <array>

#include "core/owner_process.hpp"
#include "mr/pool/allocator/block_allocator.hpp"
#include "mr/pool/allocator/slow_path.hpp"

namespace hipvmm::mr::pool {

std::uint64_t block_allocator::next_serial() noexcept {
  static std::atomic<std::uint64_t> last_made{0};
  return ++last_made;
}

block_allocator::cache_user block_allocator::remember_user(remembered& place, std::uint64_t serial,
                                                           stream_ref stream) {
  stream_state& state = blocks_.streams.state_of(stream, 0);
  place = {serial, stream.get(), {&state, &state.cache_of(this_thread_number())}};
  return place.user;
}

std::optional<std::size_t> block_allocator::allocate_small_block(const cache_user& user,
                                                                 std::size_t class_index,
                                                                 slab_supply* supply) {
  stream_state& state = *user.state;
  const std::size_t bytes = classes.bytes[class_index];
  std::array<std::size_t, thread_cache::most> batch{};
  const std::size_t wanted = thread_cache::capacity(class_index) / 2;
  std::optional<detail::counted_scope> carrier{std::in_place, blocks_.blocks_in_transit};
  // No batch if frees make fences, because a thread that empties a cache makes none.
  const bool is_single = state.newest_fence().is_made_by_frees();
  const auto batch_size = [&] {
    return is_single || blocks_.waiting_requests.load() != 0 ? 1 : wanted;
  };
  std::size_t count = take_batch(state, bytes, batch.data(), batch_size());
  if (count == 0) {
    carrier.reset();
    const auto one = allocate(state, {bytes, unit, false, supply});
    if (!one) return one;
    add_small_block(state, *one, class_index, bytes);
    if (is_single) return one;
    carrier.emplace(blocks_.blocks_in_transit);
    // The slow path mostly leaves more free memory.
    try {
      count = take_batch(state, bytes, batch.data(), batch_size());
    } catch (...) {
      static_cast<void>(deallocate_small_block(user, class_index, *one));
      throw;
    }
    if (count == 0) return one;
    // The caller gets the lowest block, which is in the batch.
    static_cast<void>(deallocate_small_block(user, class_index, *one));
  }
  // In the order of addresses.
  for (std::size_t i = count; i-- > 0;) {
    try {
      blocks_.small_blocks.add(batch[i], class_index, state.id(), i != 0);
    } catch (...) {
      for (std::size_t rest = 0; rest <= i; ++rest)
        static_cast<void>(deallocate(state, batch[rest], bytes));
      throw;
    }
    if (i != 0 && !user.cache->push(class_index, batch[i]))
      blocks_.free_cached(state, bytes, &batch[i], 1);
  }
  if (blocks_.waiting_requests.load() != 0) blocks_.empty_caches(state);
  return batch[0];
}

void block_allocator::add_small_block(stream_state& user, std::size_t offset,
                                      std::size_t class_index, std::size_t bytes) {
  try {
    blocks_.small_blocks.add(offset, class_index, user.id(), false);
  } catch (...) {
    static_cast<void>(deallocate(user, offset, bytes));
    throw;
  }
}

std::size_t block_allocator::take_batch(stream_state& user, std::size_t bytes, std::size_t* offsets,
                                        std::size_t count) {
  const state_lock lock{blocks_.mutex};
  blocks_.require_awake();
  // A whole batch would come from larger holes, and its blocks would keep the chunks there from
  // moving. The rest of a small hole merges with freed blocks later.
  block* hole = nullptr;
  for (std::size_t least = std::max<std::size_t>(count / 4, 1); hole == nullptr; least /= 2) {
    if (least == 0) return 0;
    hole = blocks_.index.best_fit_or_idle(user, least * bytes, unit);
  }
  count = std::min(count, hole->bytes / bytes);
  blocks_.index.prepare_for(count + 2);
  block* one = &blocks_.index.take(*hole, hole->offset, count * bytes);
  for (std::size_t i = 0; i < count; ++i) {
    block* const rest = i + 1 < count ? &blocks_.index.cut(*one, bytes) : nullptr;
    blocks_.index.make_used(*one, one->end(), user, user.epoch());
    offsets[i] = one->offset;
    one = rest;
  }
  ++blocks_.served[static_cast<std::size_t>(pool_source::own_stream)];
  return count;
}

void block_allocator::push_over_oldest(const cache_user& user, std::size_t class_index,
                                       std::size_t offset) noexcept {
  do {
    const detail::counted_scope carrier{blocks_.blocks_in_transit};
    std::array<std::size_t, thread_cache::most> oldest{};
    const std::size_t count =
        user.cache->take(class_index, oldest.data(), thread_cache::capacity(class_index) / 2);
    blocks_.free_cached(*user.state, classes.bytes[class_index], oldest.data(), count);
  } while (!user.cache->push(class_index, offset));
}

std::optional<std::size_t> block_allocator::allocate_block(const cache_user& user,
                                                           std::size_t bytes, slab_supply* supply) {
  stream_state& state = *user.state;
  std::optional<std::size_t> made;
  // The cached block goes first, because it may be part of the best fit.
  const thread_cache::block_at other = user.cache->take_block(&blocks_.blocks_in_transit);
  if (other.bytes != 0) blocks_.small_blocks.remove(other.offset);
  {
    const state_lock lock{blocks_.mutex};
    if (other.bytes != 0) {
      static_cast<void>(blocks_.free_used(state, other.offset, other.bytes));
      --blocks_.blocks_in_transit;
    }
    made = blocks_.take_own(state, {bytes, unit}, pool_source::own_stream);
  }
  if (!made) made = slow_path{blocks_, backing_, state, {bytes, unit, false, supply}}.serve();
  if (!made) return made;
  add_small_block(state, *made, block_class, bytes);
  user.cache->remember({*made, bytes});
  return made;
}

bool block_allocator::deallocate_block(const cache_user& user, std::size_t offset,
                                       std::size_t bytes) noexcept {
  block_map& known = blocks_.small_blocks;
  const std::size_t before = known.user_of(offset);
  if (!known.to_cache(offset, block_class, user.state->id())) return false;
  thread_cache::block_at evicted;
  const bool is_cached =
      user.cache->push_block({offset, bytes}, evicted, &blocks_.blocks_in_transit);
  if (is_cached && evicted.bytes != 0) {
    blocks_.free_cached(*user.state, evicted.bytes, &evicted.offset, 1);
    --blocks_.blocks_in_transit;
  }
  if (!is_cached && !free_large_block(*user.state, offset, bytes)) {
    static_cast<void>(known.to_caller(offset, block_class, before));
    return false;
  }
  if (blocks_.waiting_requests.load() != 0) blocks_.empty_caches(*user.state);
  return true;
}

bool block_allocator::free_large_block(stream_state& user, std::size_t offset,
                                       std::size_t bytes) noexcept {
  const state_lock lock{blocks_.mutex};
  if (!blocks_.free_used(user, offset, bytes)) return false;
  // With the lock: another thread may allocate the block after it.
  blocks_.small_blocks.remove(offset);
  return true;
}

bool block_allocator::remove_small_block(std::size_t offset, std::size_t& bytes) noexcept {
  block_map& known = blocks_.small_blocks;
  if (!known.is_small_block(offset)) return true;
  const std::size_t class_index = bytes > largest_small_block ? block_class : classes.of(bytes);
  const std::size_t before = known.user_of(offset);
  if (!known.to_cache(offset, class_index, before)) return false;
  if (class_index != block_class) {
    bytes = classes.bytes[class_index];
  } else {
    const state_lock lock{blocks_.mutex};
    const block* const found = blocks_.index.find(offset);
    if (found == nullptr || found->bytes != bytes) {
      static_cast<void>(known.to_caller(offset, class_index, before));
      return false;
    }
  }
  known.remove(offset);
  return true;
}

void block_allocator::empty_all_caches() { blocks_.empty_caches(blocks_.streams.all()); }

}  // namespace hipvmm::mr::pool
