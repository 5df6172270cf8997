// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/pool_blocks.hpp"

#include <cstdio>
#include <stdexcept>

#include "core/owner_process.hpp"

namespace hipvmm::mr::pool {

void pool_blocks::require_awake() const {
  if (refusal != nullptr) [[unlikely]]
    throw std::logic_error{*refusal};
}

chunk_rules pool_blocks::rules() const {
  return {memory.traits, equal_chunk, limit, planned_bytes, largest_chunk};
}

std::optional<growth_plan> pool_blocks::plan(const request& wanted, const placement_scan& found,
                                             chunk_rules rules) const {
  auto result = plan_growth(index, wanted, found, rules);
  const std::size_t pinned = memory.pinned_bytes();
  if (!result || pinned == 0) return result;
  const std::size_t room = limit - std::min(limit, physical_bytes() + planned_bytes);
  const auto is_allowed = [&](std::size_t backed) {
    std::size_t fresh = backed - std::min(backed, result->moved);
    const std::size_t chunk = std::min(fresh, result->chunk);
    if (chunk == 0) return true;
    const std::size_t rest = fresh % chunk;
    fresh -= std::min(memory.set_aside_bytes(chunk), fresh - rest);
    if (rest != 0 && memory.set_aside_bytes(rest) != 0) fresh -= rest;
    return fresh <= room;
  };
  if (is_allowed(result->wanted) && is_allowed(result->least)) return result;
  rules.planned += pinned;
  return plan_growth(index, wanted, found, rules);
}

void pool_blocks::choose_equal_chunk(std::size_t available) {
  if (memory.traits.has_equal_chunks && index.unmapped_bytes() == index.address_bytes())
    equal_chunk = equal_chunk_bytes(available, rules());
}

bool pool_blocks::free_used(stream_state& user, std::size_t offset, std::size_t bytes,
                            bool has_fence) noexcept {
  block* const freed = index.take_used(offset, bytes);
  if (freed == nullptr) return false;
  freed->owner = &user;
  freed->epoch = user.note_free(has_fence);
  index.make_free(*freed);
  return true;
}

std::size_t pool_blocks::make_used(block& first, std::size_t end, stream_state& user,
                                   pool_source counted) noexcept {
  ++served[static_cast<std::size_t>(counted)];
  return index.make_used(first, end, user, user.epoch()).offset;
}

std::optional<std::size_t> pool_blocks::take_own(stream_state& user, const request& wanted,
                                                 pool_source counted) {
  require_awake();
  index.prepare_for(2);
  block* const found = index.best_fit_or_idle(user, wanted.bytes, wanted.alignment);
  if (found == nullptr) return std::nullopt;
  const std::size_t at = index.aligned(found->offset, wanted.alignment);
  return make_used(index.take(*found, at, wanted.bytes), at + wanted.bytes, user, counted);
}

void pool_blocks::free_cached(stream_state& user, std::size_t bytes, const std::size_t* offsets,
                              std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) small_blocks.remove(offsets[i]);
  const state_lock lock{mutex};
  for (std::size_t i = 0; i < count; ++i) static_cast<void>(free_used(user, offsets[i], bytes));
}

void pool_blocks::empty_caches(stream_state& user) noexcept {
  user.for_each_cache([&](thread_cache& cache) {
    // A miss empties all caches, most of which have nothing.
    if (cache.is_empty()) return;
    const detail::counted_scope carrier{blocks_in_transit};
    std::array<std::size_t, thread_cache::most> blocks{};
    for (std::size_t i = 0; const std::size_t count = cache.take_next(i, blocks.data()); ++i)
      free_cached(user, classes.bytes[i], blocks.data(), count);
    const thread_cache::block_at one = cache.take_block();
    if (one.bytes != 0) free_cached(user, one.bytes, &one.offset, 1);
  });
}

void pool_blocks::report_event(memory_event_kind kind, std::size_t offset, std::size_t bytes,
                               const void* stream) const noexcept {
  const std::uintptr_t first = index.base();
  detail::report_event(
      events, kind, {.address = first == 0 ? 0 : first + offset, .bytes = bytes, .stream = stream});
}

std::string name_of_pool(std::uintptr_t start) {
  if (start == 0) return "a pool on slabs";
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "the pool at %#zx", static_cast<std::size_t>(start));
  return text.data();
}

}  // namespace hipvmm::mr::pool
