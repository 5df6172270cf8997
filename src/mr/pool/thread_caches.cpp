// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <vector>

#include "mr/pool/block_allocator.hpp"

namespace hipvmm::mr::pool {

std::size_t block_allocator::cached_small_block(const small_user& user,
                                                std::size_t class_index) noexcept {
  const std::size_t cached = user.cache->pop(class_index);
  if (cached != thread_cache::npos)
    static_cast<void>(small_blocks_.to_caller(cached, class_index, user.state->index()));
  return cached;
}

std::size_t block_allocator::cached_block(const small_user& user, std::size_t bytes) noexcept {
  const std::size_t cached = user.cache->pop_block(bytes);
  if (cached != thread_cache::npos)
    static_cast<void>(small_blocks_.to_caller(cached, block_class, user.state->index()));
  return cached;
}

std::optional<std::size_t> block_allocator::allocate_small_block(stream_state& user,
                                                                 thread_cache& cache,
                                                                 std::size_t class_index) {
  const std::size_t bytes = classes.bytes[class_index];
  std::array<std::size_t, thread_cache::most> batch{};
  const std::size_t wanted = thread_cache::capacity(class_index) / 2;
  std::size_t count = take_batch(user, bytes, batch.data(), wanted);
  if (count == 0) {
    const auto one = allocate(user, bytes, unit);
    if (!one) return one;
    add_small_block(user, *one, class_index, bytes);
    // What served it has mostly left more.
    count = take_batch(user, bytes, batch.data(), wanted);
    if (count == 0) return one;
    static_cast<void>(deallocate_small_block(user, cache, class_index, *one));
  }
  // The lowest address for the caller; the others follow in the order of addresses.
  for (std::size_t i = count; i-- > 0;) {
    try {
      small_blocks_.add(batch[i], class_index, user.index(), i != 0);
    } catch (...) {
      for (std::size_t rest = 0; rest <= i; ++rest)
        static_cast<void>(deallocate(user, batch[rest], bytes));
      throw;
    }
    if (i != 0 && !cache.push(class_index, batch[i]))
      free_small_blocks(user, class_index, &batch[i], 1);
  }
  return batch[0];
}

void block_allocator::add_small_block(stream_state& user, std::size_t offset,
                                      std::size_t class_index, std::size_t bytes) {
  try {
    small_blocks_.add(offset, class_index, user.index(), false);
  } catch (...) {
    static_cast<void>(deallocate(user, offset, bytes));
    throw;
  }
}

std::size_t block_allocator::take_batch(stream_state& user, std::size_t bytes, std::size_t* offsets,
                                        std::size_t count) {
  const state_lock lock{state_mutex_};
  // What is left of small holes is no loss: pieces that come back join again.
  block* found = nullptr;
  for (; count != 0; count /= 2) {
    found = best_fit(user, count * bytes, unit);
    if (found == nullptr) found = best_fit(idle(), count * bytes, unit);
    if (found != nullptr) break;
  }
  if (found == nullptr) return 0;
  space_.prepare_for(count + 2);
  block* piece = &take(*found, found->offset, count * bytes);
  for (std::size_t i = 0; i < count; ++i) {
    block* const rest = i + 1 < count ? &space_.cut(*piece, bytes) : nullptr;
    make_used(*piece, user);
    offsets[i] = piece->offset;
    piece = rest;
  }
  ++counters_.served[static_cast<std::size_t>(pool_source::own_stream)];
  return count;
}

bool block_allocator::deallocate_small_block(stream_state& user, thread_cache& cache,
                                             std::size_t class_index, std::size_t offset) noexcept {
  if (!small_blocks_.to_cache(offset, class_index, user.index())) return false;
  while (!cache.push(class_index, offset)) {
    std::array<std::size_t, thread_cache::most> oldest{};
    const std::size_t count =
        cache.take(class_index, oldest.data(), thread_cache::capacity(class_index) / 2);
    free_small_blocks(user, class_index, oldest.data(), count);
  }
  return true;
}

void block_allocator::free_small_blocks(stream_state& user, std::size_t class_index,
                                        const std::size_t* offsets, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) small_blocks_.remove(offsets[i]);
  const state_lock lock{state_mutex_};
  for (std::size_t i = 0; i < count; ++i)
    static_cast<void>(take_back(user, offsets[i], classes.bytes[class_index]));
}

std::optional<std::size_t> block_allocator::allocate_block(stream_state& user, thread_cache& cache,
                                                           std::size_t bytes) {
  // The best fit is looked for among all that is free.
  const thread_cache::block_at other = cache.take_block();
  if (other.bytes != 0) free_cached_block(user, other);
  const auto made = allocate(user, bytes, unit);
  if (!made) return made;
  add_small_block(user, *made, block_class, bytes);
  cache.remember({*made, bytes});
  return made;
}

bool block_allocator::deallocate_block(stream_state& user, thread_cache& cache, std::size_t offset,
                                       std::size_t bytes) noexcept {
  const std::size_t before = small_blocks_.user_of(offset);
  if (!small_blocks_.to_cache(offset, block_class, user.index())) return false;
  thread_cache::block_at evicted;
  if (!cache.push_block({offset, bytes}, evicted)) {
    static_cast<void>(small_blocks_.to_caller(offset, block_class, before));
    return false;
  }
  if (evicted.bytes != 0) free_cached_block(user, evicted);
  return true;
}

void block_allocator::free_cached_block(stream_state& user,
                                        const thread_cache::block_at& one) noexcept {
  small_blocks_.remove(one.offset);
  const state_lock lock{state_mutex_};
  static_cast<void>(take_back(user, one.offset, one.bytes));
}

bool block_allocator::remove_small_block(std::size_t offset, std::size_t& bytes) noexcept {
  if (!small_blocks_.is_small_block(offset)) return true;
  const std::size_t class_index = bytes > largest_small_block ? block_class : classes.of(bytes);
  const std::size_t before = small_blocks_.user_of(offset);
  if (!small_blocks_.to_cache(offset, class_index, before)) return false;
  if (class_index != block_class) {
    bytes = classes.bytes[class_index];
  } else {
    const state_lock lock{state_mutex_};
    const block* const known = space_.find(offset);
    if (known == nullptr || known->bytes != bytes) {
      static_cast<void>(small_blocks_.to_caller(offset, class_index, before));
      return false;
    }
  }
  small_blocks_.remove(offset);
  return true;
}

void block_allocator::empty_caches(stream_state& user) noexcept {
  user.for_each_cache([&](thread_cache& cache) {
    std::array<std::size_t, thread_cache::most> all{};
    // A miss empties all caches, and next to all classes of next to all of them have nothing.
    for (std::size_t i = 0; const std::size_t count = cache.take_next(i, all.data()); ++i)
      free_small_blocks(user, i, all.data(), count);
    const thread_cache::block_at one = cache.take_block();
    if (one.bytes != 0) free_cached_block(user, one);
  });
}

void block_allocator::empty_all_caches() {
  std::vector<stream_state*> all;
  {
    const state_lock lock{state_mutex_};
    for (stream_state& each : states_) all.push_back(&each);
  }
  for (stream_state* const each : all) empty_caches(*each);
}

}  // namespace hipvmm::mr::pool
