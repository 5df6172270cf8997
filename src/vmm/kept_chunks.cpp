// SPDX-License-Identifier: MIT
#include "vmm/kept_chunks.hpp"

#include <algorithm>

namespace hipvmm::detail {

std::unique_ptr<kept_chunk> kept_chunks::take(std::size_t bytes, handle_type shareable) {
  const std::lock_guard lock{mutex};
  const auto at = chunks_.lower_bound(kept_position{shareable, bytes, 0});
  if (at == chunks_.end() || at->chunk.bytes() != bytes || at->chunk.shareable() != shareable) {
    ++statistics.misses;
    return nullptr;
  }
  ++statistics.hits;
  return std::unique_ptr<kept_chunk>{&take_out(*at)};
}

kept_chunks::outcome kept_chunks::keep(std::unique_ptr<kept_chunk> kept, const kept_bounds& bounds,
                                       const descriptor_budget& budget, departing_chunks& out) {
  const std::lock_guard lock{mutex};
  // Read under the lock: who lowers it trims afterwards, and must not miss this chunk.
  const std::size_t byte_limit = bounds.byte_limit();
  if (kept->chunk.bytes() > byte_limit) {
    ++statistics.dropped;
    out.add(*kept.release());
    return outcome::dropped;
  }
  statistics.bytes += kept->chunk.bytes();
  ++statistics.chunks;
  kept->since = std::chrono::steady_clock::now();
  chunks_.insert(*kept);
  ages_.push_back(*kept.release());
  while (statistics.bytes > byte_limit) drop(ages_.front(), out);
  statistics.peak_bytes = std::max(statistics.peak_bytes, statistics.bytes);
  statistics.peak_chunks = std::max(statistics.peak_chunks, statistics.chunks);
  if (budget.share != share_) {
    share_ = budget.share;
    harmless_ = budget.first_count();
  }
  return statistics.chunks > harmless_ ? outcome::kept_uncounted : outcome::kept;
}

void kept_chunks::drop_unless_harmless(const descriptor_budget& budget, departing_chunks& out) {
  const std::size_t open = budget.limit - free_descriptors(budget.limit, budget.limit);
  const std::lock_guard lock{mutex};
  if (open < budget.limit / 2) {
    // Even if each chunk more costs one, and other devices do the same, half stays the bound.
    harmless_ = statistics.chunks + (budget.limit / 2 - open) / budget.devices;
    return;
  }
  const std::size_t others = open - std::min(open, statistics.chunks);
  const std::size_t most = budget.share_beside(others);
  harmless_ = std::max(most, budget.uncounted());
  // An eighth more than need be, so that not every recycled chunk leads to a count.
  while (statistics.chunks > most - most / 8) drop(ages_.front(), out);
}

std::size_t kept_chunks::drop_down_to(std::size_t bytes_to_keep, departing_chunks& out) {
  const std::lock_guard lock{mutex};
  const std::size_t before = statistics.bytes;
  while (statistics.bytes > bytes_to_keep) drop(ages_.front(), out);
  return before - statistics.bytes;
}

std::size_t kept_chunks::drop_expired(std::chrono::steady_clock::time_point limit, std::size_t most,
                                      departing_chunks& out) {
  const std::lock_guard lock{mutex};
  const std::size_t before = statistics.bytes;
  for (; most != 0 && !ages_.empty() && ages_.front().since <= limit; --most) {
    drop(ages_.front(), out);
    ++statistics.expired;
  }
  return before - statistics.bytes;
}

std::optional<std::chrono::steady_clock::time_point> kept_chunks::oldest() const {
  const std::lock_guard lock{mutex};
  if (ages_.empty()) return std::nullopt;
  return ages_.front().since;
}

void kept_chunks::count(std::size_t chunk_cache_statistics::*what) {
  const std::lock_guard lock{mutex};
  ++(statistics.*what);
}

kept_chunk& kept_chunks::take_out(kept_chunk& kept) {
  chunks_.erase(chunks_.iterator_to(kept));
  ages_.erase(ages_.iterator_to(kept));
  statistics.bytes -= kept.chunk.bytes();
  --statistics.chunks;
  return kept;
}

void kept_chunks::drop(kept_chunk& kept, departing_chunks& out) {
  out.add(take_out(kept));
  ++statistics.dropped;
}

}  // namespace hipvmm::detail
