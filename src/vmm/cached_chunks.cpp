// SPDX-License-Identifier: MIT
#include "vmm/cached_chunks.hpp"

#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {

physical_chunk cached_chunks::take(std::size_t bytes, handle_type shareable) {
  const std::lock_guard lock{mutex};
  // Pinned memory first, which cannot return.
  for (group* const each : {&pinned_, &free_}) {
    const auto at = each->chunks.lower_bound(kept_position{true, shareable, bytes, 0});
    if (at == each->chunks.end() || at->chunk.bytes() != bytes ||
        at->chunk.shareable() != shareable)
      continue;
    return take_chunk(*at);
  }
  ++statistics.misses;
  return {};
}

std::size_t cached_chunks::bytes_to_take(std::size_t bytes, handle_type shareable,
                                         std::size_t most) const {
  const std::lock_guard lock{mutex};
  std::size_t sum = 0;
  for (const group* const each : {&pinned_, &free_})
    for (auto at = each->chunks.lower_bound(kept_position{true, shareable, bytes, 0});
         sum < most && at != each->chunks.end() && at->chunk.bytes() == bytes &&
         at->chunk.shareable() == shareable;
         ++at)
      sum += bytes;
  return sum;
}

physical_chunk cached_chunks::take_pinned(std::size_t bytes, std::size_t most,
                                          handle_type shareable) {
  const std::lock_guard lock{mutex};
  kept_chunk* best = nullptr;
  for (auto at = pinned_.chunks.lower_bound(kept_position{true, shareable, 0, 0});
       at != pinned_.chunks.end() && at->chunk.shareable() == shareable &&
       at->chunk.bytes() <= most;
       ++at) {
    if (!is_pinned(at->chunk) || (best != nullptr && best->chunk.bytes() == at->chunk.bytes()))
      continue;
    best = &*at;
    if (best->chunk.bytes() >= bytes) break;
  }
  return best == nullptr ? physical_chunk{} : take_chunk(*best);
}

cached_chunks::outcome cached_chunks::keep(std::unique_ptr<kept_chunk> kept,
                                           const kept_bounds& bounds,
                                           const descriptor_budget& budget, evicted_chunks& out) {
  const std::lock_guard lock{mutex};
  // Under the lock: a caller that lowers it trims afterwards, and must not miss this chunk.
  const std::size_t byte_limit = bounds.byte_limit();
  const bool pinned = bounds.keeps_pinned && is_pinned(kept->chunk);
  if (!pinned && (kept->only_while_pinned || kept->chunk.bytes() > byte_limit)) {
    ++statistics.dropped;
    out.add(*kept.release());
    return outcome::dropped;
  }
  statistics.bytes += kept->chunk.bytes();
  ++statistics.chunks;
  kept->since = std::chrono::steady_clock::now();
  kept->came_pinned = pinned;
  group& of = group_of(*kept);
  of.chunks.insert(*kept);
  of.ages.push_back(*kept.release());
  drop_beyond(byte_limit, out);
  statistics.peak_bytes = std::max(statistics.peak_bytes, statistics.bytes);
  statistics.peak_chunks = std::max(statistics.peak_chunks, statistics.chunks);
  if (budget.share != share_) {
    share_ = budget.share;
    harmless_ = budget.first_count();
  }
  return statistics.chunks > harmless_ ? outcome::kept_uncounted : outcome::kept;
}

void cached_chunks::drop_unless_harmless(const descriptor_budget& budget, evicted_chunks& out) {
  const std::size_t open = budget.limit - free_descriptors(budget.limit, budget.limit);
  const std::lock_guard lock{mutex};
  if (open < budget.limit / 2) {
    // Half stays the bound even if each chunk more costs one, on all devices.
    harmless_ = statistics.chunks + (budget.limit / 2 - open) / budget.devices;
    return;
  }
  const std::size_t others = open - std::min(open, statistics.chunks);
  const std::size_t most = budget.share_beside(others);
  harmless_ = std::max(most, budget.uncounted());
  // An eighth more, so that not every recycled chunk leads to a count.
  for (group* const each : {&free_, &pinned_})
    while (statistics.chunks > most - most / 8 && !each->ages.empty())
      drop(each->ages.front(), out);
}

std::size_t cached_chunks::drop_down_to(std::size_t bytes_to_keep, evicted_chunks& out) {
  const std::lock_guard lock{mutex};
  const std::size_t before = statistics.bytes;
  drop_beyond(bytes_to_keep, out);
  return before - statistics.bytes;
}

void cached_chunks::drop_beyond(std::size_t bytes, evicted_chunks& out) {
  while (statistics.bytes > bytes && !free_.ages.empty()) drop(free_.ages.front(), out);
}

std::size_t cached_chunks::drop_all(evicted_chunks& out) {
  const std::lock_guard lock{mutex};
  const std::size_t before = statistics.bytes;
  for (group* const each : {&free_, &pinned_})
    while (!each->ages.empty()) drop(each->ages.front(), out);
  return before;
}

std::size_t cached_chunks::drop_unpinned(const kept_bounds& bounds, evicted_chunks& out) {
  const std::lock_guard lock{mutex};
  const std::size_t before = statistics.bytes;
  boost::intrusive::list<kept_chunk> unpinned;
  for (auto at = pinned_.ages.begin(); at != pinned_.ages.end();) {
    kept_chunk& one = *at++;
    if (is_pinned(one.chunk)) continue;
    if (one.only_while_pinned) {
      drop(one, out);
      continue;
    }
    pinned_.chunks.erase(pinned_.chunks.iterator_to(one));
    pinned_.ages.erase(pinned_.ages.iterator_to(one));
    one.came_pinned = false;
    free_.chunks.insert(one);
    unpinned.push_back(one);
  }
  free_.ages.merge(unpinned,
                   [](const kept_chunk& a, const kept_chunk& b) { return a.since < b.since; });
  drop_beyond(bounds.byte_limit(), out);
  return before - statistics.bytes;
}

std::size_t cached_chunks::drop_expired(std::chrono::steady_clock::time_point limit,
                                        std::size_t most, evicted_chunks& out) {
  const std::lock_guard lock{mutex};
  const std::size_t before = statistics.bytes;
  for (; most != 0 && !free_.ages.empty() && free_.ages.front().since <= limit; --most) {
    drop(free_.ages.front(), out);
    ++statistics.expired;
  }
  return before - statistics.bytes;
}

std::optional<std::chrono::steady_clock::time_point> cached_chunks::oldest() const {
  const std::lock_guard lock{mutex};
  if (free_.ages.empty()) return std::nullopt;
  return free_.ages.front().since;
}

void cached_chunks::count(std::size_t chunk_cache_statistics::*what) {
  const std::lock_guard lock{mutex};
  ++(statistics.*what);
}

kept_chunk& cached_chunks::take_out(kept_chunk& kept) {
  group& of = group_of(kept);
  of.chunks.erase(of.chunks.iterator_to(kept));
  of.ages.erase(of.ages.iterator_to(kept));
  statistics.bytes -= kept.chunk.bytes();
  --statistics.chunks;
  return kept;
}

physical_chunk cached_chunks::take_chunk(kept_chunk& kept) {
  ++statistics.hits;
  const std::unique_ptr<kept_chunk> taken{&take_out(kept)};
  return std::move(taken->chunk);
}

void cached_chunks::drop(kept_chunk& kept, evicted_chunks& out) {
  out.add(take_out(kept));
  ++statistics.dropped;
}

}  // namespace hipvmm::detail
