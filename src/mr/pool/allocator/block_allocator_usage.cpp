// SPDX-License-Identifier: MIT
// The statistics and the list of blocks of a block allocator.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include <hipvmm/core/bytes.hpp>
#include "mr/pool/allocator/block_allocator.hpp"
#include "mr/pool/allocator/placement.hpp"
#include "mr/pool/allocator/small_blocks.hpp"

namespace hipvmm::mr::pool {

namespace {

/// The free memory when all work is done, with that of caches.
class free_memory_scan final : block_filter {
 public:
  /// Subtracts the blocks of caches from `seen.used_current`, and fills in `seen.streams`.
  free_memory_scan(pool_blocks& blocks, allocator_statistics& seen) : blocks_{blocks} {
    std::vector<std::size_t> shares(blocks.streams.states().size());
    for (stream_state& each : blocks.streams.states()) {
      shares[each.index()] += each.free_bytes();
      if (!each.free().empty()) add(each.free().back());
    }
    blocks.for_each_cached([&](stream_state& owner, block& one) {
      shares[owner.index()] += one.bytes;
      seen.used_current -= one.bytes;
      cached_.push_back(&one);
    });
    for (block* const each : cached_) add(*each);
    blocks.index.for_each_stretch(blocks.index.least_chunk(),
                                  [this](block& first, const block&) { add(first); });
    std::ranges::sort(stretches_, {}, &stretch::first);
    const auto twice = std::ranges::unique(stretches_, {}, &stretch::first);
    stretches_.erase(twice.begin(), twice.end());
    for (stretch& each : stretches_) {
      each.end = end_of(*each.first);
      add_idle_chunks(blocks.index, *each.first, each.end, chunks_);
    }

    // Memory freed without a stream counts as idle, because no stream has it.
    shares.front() += shares[blocks.streams.all_streams().index()];
    for (const stream_state& each : blocks.streams.states()) {
      if (each.is_all_streams()) continue;
      const std::size_t share = shares[each.index()];
      if (each.is_idle() || share != 0) seen.streams.push_back({each.stream(), share});
    }
  }

  [[nodiscard]] std::size_t longest() const {
    std::size_t bytes = 0;
    for (const stretch& each : stretches_) bytes = std::max(bytes, each.end - each.first->offset);
    return bytes;
  }
  /// Bytes of chunks of which nothing is used.
  [[nodiscard]] std::size_t whole_chunks() const {
    std::size_t sum = 0;
    for (const idle_chunk& each : chunks_) sum += each.bytes;
    return sum;
  }
  [[nodiscard]] std::size_t largest_place() const;
  /// By trial up to `most` bytes. Pre: the pool can serve `served` bytes.
  [[nodiscard]] std::size_t largest_with_new(std::size_t served, std::size_t most,
                                             std::optional<new_memory> fresh) const;
  /// If idle chunks become at most `room` bytes of new ones. Pre: chunks move and are returned.
  [[nodiscard]] std::size_t largest_after_release(std::size_t fresh, std::size_t room) const;

 private:
  [[nodiscard]] bool can_serve(std::size_t bytes, std::optional<new_memory> fresh) const;

  struct stretch {
    block* first;
    std::size_t end = 0;
  };

  [[nodiscard]] bool is_usable(const block& one) const override {
    return one.state == block_state::free ||
           (one.state == block_state::used && blocks_.small_blocks.is_in_cache(one.offset));
  }
  [[nodiscard]] bool may_move(const block&) const override { return true; }
  [[nodiscard]] bool may_unmap(const block& one) const override {
    return one.state == block_state::leaving;  // unmapped before a refusal
  }

  [[nodiscard]] bool has_no_memory(const block& one) const {
    return one.state == block_state::unmapped || may_unmap(one);
  }
  template <typename Visit>
  void for_each_place(Visit visit) const {
    const auto is_part = [this](const block* one) {
      return one != nullptr && (is_usable(*one) || has_no_memory(*one));
    };
    std::map<std::size_t, std::size_t> seen;  // from the start of each to its end
    const auto visit_around = [&](const block& one) {
      const auto behind = seen.upper_bound(one.offset);
      if (behind != seen.begin() && std::prev(behind)->second > one.offset) return;
      const block* first = &one;
      const block* last = &one;
      while (is_part(first->previous)) first = first->previous;
      while (is_part(last->next)) last = last->next;
      seen.emplace(first->offset, last->end());
      visit(*first, *last);
    };
    for (const block_tree* const tree : {&blocks_.index.unmapped(), &blocks_.index.leaving()})
      for (const block& gap : *tree) visit_around(gap);
    for (const stretch& each : stretches_) visit_around(*each.first);
  }

  void add(block& one) {
    block* first = &one;
    while (first->previous != nullptr && is_usable(*first->previous)) first = first->previous;
    stretches_.push_back({first});
  }
  [[nodiscard]] std::size_t end_of(const block& first) const noexcept {
    const block* at = &first;
    while (at->next != nullptr && is_usable(*at->next)) at = at->next;
    return at->end();
  }

  pool_blocks& blocks_;
  std::vector<block*> cached_;
  std::vector<stretch> stretches_;
  std::vector<idle_chunk> chunks_;
};

std::size_t free_memory_scan::largest_place() const {
  std::size_t result = longest();
  if (blocks_.memory.traits.moves_chunks) {
    for_each_place([&](const block& first, const block& last) {
      result = std::max(result, last.end() - first.offset);
    });
    return result;
  }
  // Unbacked addresses on both sides separate chunks.
  const std::size_t margins = 2 * blocks_.memory.traits.granularity;
  for (const block& gap : blocks_.index.unmapped())
    result = std::max(result, gap.bytes - std::min(gap.bytes, margins));
  return result;
}

bool free_memory_scan::can_serve(std::size_t bytes, std::optional<new_memory> fresh) const {
  const request wanted{bytes, block_index::unit};
  chunk_rules rules = blocks_.rules();
  rules.moves_small_chunks = fresh.has_value();  // as if memory was refused
  placement_scan found;
  if (blocks_.memory.traits.moves_chunks) found.sources = chunks_;
  scan_gaps(blocks_.index, wanted, *this, rules, found);
  const auto plan = blocks_.plan(wanted, found, rules);
  if (!plan) return false;
  if (plan->least <= plan->moved) return true;
  if (!fresh || plan->least > add_bytes(plan->moved, fresh->bytes)) return false;
  if (fresh->chunks == new_memory{}.chunks) return true;
  return (plan->least - plan->moved - 1) / plan->chunk < fresh->chunks;
}

std::size_t free_memory_scan::largest_with_new(std::size_t served, std::size_t most,
                                               std::optional<new_memory> fresh) const {
  const auto fits = [&](std::size_t bytes) { return can_serve(bytes, fresh); };
  most = align_down(most, block_index::unit);
  if (most <= served) return served;
  if (fits(most)) return most;
  // Not monotonic, because a larger request may get another place, or too large chunks.
  while (most - served > blocks_.memory.traits.granularity) {
    const std::size_t half = align_down(served + (most - served) / 2, block_index::unit);
    (fits(half) ? served : most) = half;
  }
  return served;
}

std::size_t free_memory_scan::largest_after_release(std::size_t fresh, std::size_t room) const {
  const auto& chunks = blocks_.index.chunks();
  const std::size_t idle = whole_chunks();
  const std::size_t others = blocks_.physical_bytes() + blocks_.planned_bytes - idle;
  const std::size_t unit = std::max(blocks_.memory.traits.granularity, blocks_.equal_chunk);
  room = std::min({room, blocks_.limit - std::min(blocks_.limit, others), add_bytes(fresh, idle)});
  room = align_down(room, unit);
  std::size_t result = 0;
  for_each_place([&](const block& first, const block& last) {
    const std::size_t end = last.end();
    // Only free memory of chunks in use, at both ends, would keep its backing.
    std::size_t front = end;
    std::size_t back = first.offset;
    for (const block* at = &first; at != last.next; at = at->next) {
      if (!has_no_memory(*at)) continue;
      front = std::min(front, at->offset);
      back = at->end();
    }
    if (const auto at = chunks.lower_bound(first.offset);
        at != chunks.end() && at->first + at->second.bytes <= end)
      front = std::min(front, at->first);
    for (auto at = chunks.lower_bound(end); at != chunks.begin();) {
      const auto& [offset, chunk] = *--at;
      if (offset < first.offset) break;
      if (offset + chunk.bytes > end) continue;
      back = std::max(back, offset + chunk.bytes);
      break;
    }
    if (front >= back) return;
    const std::size_t kept = std::max(front - first.offset, end - back);
    result = std::max(result, back - front <= room ? end - first.offset : kept + room);
  });
  return align_down(result, block_index::unit);
}

/// Memory in caches counts as used. Pre: the state lock is held.
pool_statistics counted(pool_blocks& blocks) {
  block_index& index = blocks.index;
  pool_statistics now{};
  now.reserved_current = blocks.physical_bytes();
  index.note_high(now.reserved_current);
  now.reserved_high = index.physical_high();
  now.used_current = index.used_bytes();
  now.used_high = index.used_high();
  now.address_bytes = index.address_bytes();
  now.mapped_bytes = now.address_bytes - index.unmapped_bytes();
  now.chunks_created = blocks.chunks_created;
  now.chunks_moved = blocks.chunks_moved;
  now.served = blocks.served;
  return now;
}

/// nullopt for an unmapped or busy block.
std::optional<block_use> use_of(pool_blocks& blocks, const block& one) {
  switch (one.state) {
    case block_state::used:
      return blocks.small_blocks.is_in_cache(one.offset) ? block_use::cached : block_use::allocated;
    case block_state::free:
      return owner_of(one).has_passed(one.epoch) ? block_use::idle : block_use::pending;
    case block_state::leaving:
      return block_use::leaving;
    case block_state::unmapped:
    case block_state::busy:
      break;
  }
  return std::nullopt;
}

/// 0 without a stream, or if that is gone.
std::uintptr_t stream_of(pool_blocks& blocks, const block& one, block_use use) {
  if (use == block_use::leaving) return 0;
  const stream_state* user = &owner_of(one);
  if (use == block_use::allocated || use == block_use::cached) {
    if (blocks.small_blocks.is_small_block(one.offset))
      user = blocks.streams.with_id(blocks.small_blocks.user_of(one.offset));
    else if (!user->is_of_this_stream(one.epoch))
      user = nullptr;
  }
  if (user == nullptr || !user->is_stream() || !user->is_in_use()) return 0;
  return reinterpret_cast<std::uintptr_t>(user->stream().get());
}

}  // namespace

std::vector<listed_block> block_allocator::list_blocks() {
  std::vector<listed_block> result;
  const state_lock lock{blocks_.mutex};
  for (const block* at = &blocks_.index.front(); at != nullptr; at = at->next) {
    if (const std::optional<block_use> use = use_of(blocks_, *at))
      result.push_back({at->offset, at->bytes, *use, stream_of(blocks_, *at, *use)});
  }
  return result;
}

pool_statistics block_allocator::counters() {
  const state_lock lock{blocks_.mutex};
  return counted(blocks_);
}

pool_usage block_allocator::held_and_used() {
  const state_lock lock{blocks_.mutex};
  pool_usage found = counted(blocks_);
  blocks_.for_each_cached(
      [&](stream_state&, const block& one) { found.used_current -= one.bytes; });
  return found;
}

allocator_statistics block_allocator::usage_snapshot(std::optional<new_memory> fresh) {
  const memory_backend& memory = blocks_.memory;
  const state_lock lock{blocks_.mutex};
  if (fresh) blocks_.choose_equal_chunk(fresh->bytes);
  allocator_statistics seen{counted(blocks_)};
  seen.states = blocks_.streams.states().size();
  const free_memory_scan scan{blocks_, seen};
  seen.largest_now = scan.longest();
  seen.largest_place = scan.largest_place();
  const std::size_t whole = scan.whole_chunks();
  // No request without new memory is larger.
  const std::size_t most = std::min(seen.largest_place, seen.reserved_current - seen.used_current);
  seen.largest_moved = seen.largest_now;
  if (memory.traits.moves_chunks)
    seen.largest_moved = scan.largest_with_new(seen.largest_now, most, std::nullopt);
  const auto in_classes = [&seen] {
    for (std::size_t* const each : {&seen.largest_now, &seen.largest_moved, &seen.largest_possible})
      *each = classes.largest_in(*each);
    return seen;
  };
  if (!fresh) return in_classes();
  // For a request that no slab holds, the pool releases idle slabs.
  if (!memory.traits.moves_chunks) fresh->bytes = add_bytes(fresh->bytes, whole);
  const std::size_t room = blocks_.limit - std::min(blocks_.limit, seen.used_current);
  seen.largest_possible = scan.largest_with_new(
      seen.largest_moved, std::min({seen.largest_place, room, add_bytes(most, fresh->bytes)}),
      fresh);
  if (memory.traits.moves_chunks && memory.traits.returns_memory) {
    // Too low if the number of chunks is limited, because most new chunks are larger.
    constexpr std::size_t small_chunk = 2 * MiB;
    const std::size_t most_created =
        fresh->chunks < blocks_.limit / small_chunk ? fresh->chunks * small_chunk : blocks_.limit;
    seen.largest_possible =
        std::max(seen.largest_possible,
                 std::min(room, scan.largest_after_release(fresh->bytes, most_created)));
  }
  return in_classes();
}

bool block_allocator::may_release_serve(std::size_t bytes, std::size_t fresh) {
  const state_lock lock{blocks_.mutex};
  allocator_statistics seen{};
  seen.used_current = blocks_.index.used_bytes();
  const free_memory_scan scan{blocks_, seen};
  if (bytes > blocks_.limit - std::min(blocks_.limit, seen.used_current)) return false;
  if (!blocks_.memory.traits.moves_chunks) return true;
  if (!blocks_.memory.traits.returns_memory)
    return seen.used_current == 0 && bytes <= add_bytes(fresh, blocks_.physical_bytes());
  for (const block* at = &blocks_.index.front(); at != nullptr; at = at->next)
    if (at->state == block_state::busy) return true;
  return bytes <= scan.largest_after_release(fresh, blocks_.limit);
}

}  // namespace hipvmm::mr::pool
