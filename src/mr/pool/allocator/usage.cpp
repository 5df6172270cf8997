// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/usage.hpp"

#include <algorithm>
#include <optional>

#include <hipvmm/core/bytes.hpp>
#include "mr/pool/allocator/placement.hpp"

namespace hipvmm::mr::pool {

namespace {

/// Free memory, and what caches have, as a request finds it when all work is done: a miss empties
/// caches.
class idle_memory final : block_filter {
 public:
  /// Takes what caches have off `seen.used_bytes`, and fills in `seen.streams`.
  idle_memory(allocator_state& all, usage& seen) : all_{all} {
    std::vector<std::size_t> shares(all.streams.states().size());  // by the states' index
    for (stream_state& each : all.streams.states()) {
      shares[each.index()] += each.free_bytes();
      if (!each.free().empty()) add(each.free().back());
      each.for_each_cache([&](thread_cache& cache) {
        cache.for_each([&](std::size_t offset) {
          block* const found = all.index.find(offset);
          if (found == nullptr) return;
          shares[each.index()] += found->bytes;
          seen.used_bytes -= found->bytes;
          cached_.push_back(found);
        });
      });
    }
    for (block* const each : cached_) add(*each);
    all.index.for_each_stretch(all.index.least_chunk(),
                               [this](block& first, const block&) { add(first); });
    std::sort(stretches_.begin(), stretches_.end());
    stretches_.erase(std::unique(stretches_.begin(), stretches_.end()), stretches_.end());
    for (stretch& each : stretches_) each.end = end_of(*each.first);

    // What was freed without a stream counts as idle: it waits for work, not for a stream.
    shares.front() += shares[all.streams.all_streams().index()];
    for (const stream_state& each : all.streams.states()) {
      if (each.is_all_streams()) continue;
      const std::size_t share = shares[each.index()];
      if (each.is_idle() || share != 0) seen.streams.push_back({each.stream(), share});
    }
  }

  /// The longest stretch.
  [[nodiscard]] std::size_t longest() const {
    std::size_t bytes = 0;
    for (const stretch& each : stretches_) bytes = std::max(bytes, each.end - each.first->offset);
    return bytes;
  }
  /// Bytes of chunks of which nothing is used.
  [[nodiscard]] std::size_t whole_chunks() const {
    std::size_t sum = 0;
    for (const stretch& each : stretches_) sum += chunks_in(each.first->offset, each.end);
    return sum;
  }
  /// The largest part of a request that lies before what moves there. A request goes where the
  /// least is missing, the longest run, though less may move there: no more than each such place
  /// has.
  [[nodiscard]] std::size_t largest_rest() const;
  /// The most bytes, up to `most`, that moving chunks was found to serve; `served` where that is
  /// none. Pre: `served` bytes are served as they lie.
  [[nodiscard]] std::size_t largest_moved(std::size_t served, std::size_t most) const;

 private:
  /// Whether a request of so many bytes would be served by moving chunks.
  [[nodiscard]] bool can_move_to_fit(std::size_t bytes) const;

  /// Of idle blocks beside each other.
  struct stretch {
    block* first;
    std::size_t end = 0;
    friend bool operator<(const stretch& a, const stretch& b) { return a.first < b.first; }
    friend bool operator==(const stretch& a, const stretch& b) { return a.first == b.first; }
  };

  [[nodiscard]] bool is_usable(const block& one) const override {
    return one.state == block_state::free ||
           (one.state == block_state::used &&
            all_.small_blocks.cached_by(one.offset) != block_map::nobody);
  }
  [[nodiscard]] bool may_move(const block&) const override { return true; }
  [[nodiscard]] bool may_unmap(const block& one) const override {
    return one.state == block_state::leaving && !all_.memory.unmap_waits();
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
  [[nodiscard]] std::size_t chunks_in(std::size_t begin, std::size_t end) const {
    std::size_t sum = 0;
    const auto& chunks = all_.index.chunks();
    for (auto each = chunks.lower_bound(begin);
         each != chunks.end() && each->first + each->second.bytes <= end; ++each)
      sum += each->second.bytes;
    return sum;
  }

  allocator_state& all_;
  std::vector<block*> cached_;
  std::vector<stretch> stretches_;  // those that may be the longest, or hold a chunk
};

std::size_t idle_memory::largest_rest() const {
  std::size_t longest = 0;
  std::size_t rest = 0;
  bool is_any = false;
  const auto visit = [&](auto take) {
    for (const block& gap : all_.index.unmapped()) {
      std::size_t begin = gap.offset;
      for (const block* at = gap.previous; at != nullptr && is_usable(*at); at = at->previous)
        begin = at->offset;
      take(gap, gap.offset - begin, gap.offset - begin - chunks_in(begin, gap.offset));
    }
  };
  visit([&](const block& gap, std::size_t bytes, std::size_t) {
    if (gap.bytes < all_.limit) return;
    longest = std::max(longest, bytes);
    is_any = true;
  });
  if (!is_any) return 0;
  rest = longest;
  visit([&](const block&, std::size_t bytes, std::size_t without_chunks) {
    if (bytes >= longest) rest = std::min(rest, without_chunks);
  });
  return rest;
}

bool idle_memory::can_move_to_fit(std::size_t bytes) const {
  const memory_backend& memory = all_.memory;
  const request wanted{bytes, block_index::unit};
  const chunk_rules rules{memory.granularity(),  memory.least_slab(),       memory.most_chunks(),
                          memory.moves_chunks(), memory.has_equal_chunks(), all_.limit,
                          all_.planned_bytes};
  placement_scan found;
  for (const stretch& each : stretches_)
    add_idle_chunks(all_.index, *each.first, each.end, found.sources);
  scan_gaps(all_.index, wanted, *this, rules, found);
  const auto plan = plan_growth(all_.index, wanted, found, rules);
  if (!plan) return false;
  std::size_t moved = 0;
  for (const idle_chunk& each : plan->sources) moved += each.bytes;
  return moved >= plan->least;
}

std::size_t idle_memory::largest_moved(std::size_t served, std::size_t most) const {
  if (most <= served) return served;
  if (can_move_to_fit(most)) return most;
  // Elsewhere a place that lacks less may get the request, or chunks that are too large for it.
  while (most - served > all_.memory.granularity()) {
    const std::size_t half = align_down(served + (most - served) / 2, block_index::unit);
    (can_move_to_fit(half) ? served : most) = half;
  }
  return served;
}

/// What a block with memory is used for; nullopt for others.
std::optional<block_use> use_of(allocator_state& all, const block& one) {
  switch (one.state) {
    case block_state::used:
      return all.small_blocks.cached_by(one.offset) != block_map::nobody ? block_use::cached
                                                                         : block_use::allocated;
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

/// The stream that allocated or freed it; 0 where it is none, or gone.
std::uintptr_t stream_of(allocator_state& all, const block& one, block_use use) {
  if (use == block_use::leaving) return 0;
  const stream_state* user = &owner_of(one);
  if (use == block_use::allocated || use == block_use::cached) {
    if (all.small_blocks.is_small_block(one.offset))
      user = all.streams.with_id(all.small_blocks.user_of(one.offset));
    else if (!user->is_of_this_stream(one.epoch))
      user = nullptr;
  }
  if (user == nullptr || !user->is_stream() || !user->is_in_use()) return 0;
  return reinterpret_cast<std::uintptr_t>(user->stream().get());
}

}  // namespace

std::vector<listed_block> list_blocks(allocator_state& all) {
  std::vector<listed_block> result;
  const allocator_state::state_lock lock{all.state_mutex};
  for (const block* at = &all.index.front(); at != nullptr; at = at->next) {
    if (const std::optional<block_use> use = use_of(all, *at))
      result.push_back({at->offset, at->bytes, *use, stream_of(all, *at, *use)});
  }
  return result;
}

pool_usage held_and_used(allocator_state& all) {
  const allocator_state::state_lock lock{all.state_mutex};
  block_index& index = all.index;
  pool_usage found{index.physical_bytes(), index.physical_high(), index.used_bytes(),
                   index.used_high()};
  for (stream_state& each : all.streams.states())
    each.for_each_cache([&](thread_cache& cache) {
      cache.for_each([&](std::size_t offset) {
        if (const block* const cached = index.find(offset)) found.used_current -= cached->bytes;
      });
    });
  return found;
}

usage usage_snapshot(allocator_state& all) {
  const allocator_state::state_lock lock{all.state_mutex};
  const block_index& index = all.index;
  usage seen;
  seen.address_bytes = index.address_bytes();
  seen.physical_bytes = index.physical_bytes();
  seen.mapped_bytes = seen.address_bytes - index.unmapped_bytes();
  seen.used_bytes = index.used_bytes();
  seen.blocks = index.block_count();
  seen.states = all.streams.states().size();
  const idle_memory idle{all, seen};
  seen.largest_run = idle.longest();
  if (all.memory.moves_chunks())
    seen.largest_before_new = idle.whole_chunks() + idle.largest_rest();
  seen.largest_moved = idle.largest_moved(seen.largest_run, seen.largest_before_new);
  return seen;
}

}  // namespace hipvmm::mr::pool
