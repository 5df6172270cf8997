// SPDX-License-Identifier: MIT
#include <algorithm>

#include <hipvmm/core/bytes.hpp>

#include "core/log.hpp"
#include "mr/pool/slow_path.hpp"

namespace hipvmm::mr::pool {

block_allocator::trimmed slow_path::trim(std::size_t bytes_to_keep) {
  // Some tens of microseconds each, during which requests that miss wait.
  constexpr std::size_t most_chunks = 4;
  const block_allocator::slow_path_turn turn{all_};
  for (stream_state* const each : states_) all_.empty_caches(*each);
  record_fences();
  unmap_old_addresses();

  std::vector<idle_chunk> chosen;
  std::vector<blocks> around;
  bool more = false;
  {
    const state_lock lock{all_.state_mutex_};
    const std::size_t held = all_.counters_.physical_bytes;
    if (held <= bytes_to_keep) return {0, false, !all_.aliases_.empty()};
    std::size_t excess = held - bytes_to_keep;
    placement_scan found;
    block* run = nullptr;
    bool in_use = false;  // some free memory may still be used by work under way
    for (block* at = &all_.space_.front();; at = at->next) {
      const bool is_free = at != nullptr && at->state == block_state::free;
      const bool has_passed = is_free && at->owner->has_passed(at->epoch);
      in_use = in_use || (is_free && !has_passed);
      if (run != nullptr && !has_passed)
        add_sources(*run, at == nullptr ? all_.memory_.address_bytes() : at->offset, found);
      run = !has_passed ? nullptr : run != nullptr ? run : at;
      if (at == nullptr) break;
    }
    // Those made last go first: what stays is then old, and lies as it was made.
    std::sort(found.sources.begin(), found.sources.end(),
              [](const idle_chunk& a, const idle_chunk& b) { return a.order > b.order; });
    for (const idle_chunk& each : found.sources) {
      if (each.bytes > excess) continue;
      if (chosen.size() == most_chunks) {
        more = true;
        break;
      }
      excess -= each.bytes;
      chosen.push_back(each);
    }
    more = more || (in_use && excess != 0);
    // In the order of addresses, so that cutting one leaves the first block of the next.
    std::sort(chosen.begin(), chosen.end(),
              [](const idle_chunk& a, const idle_chunk& b) { return a.offset < b.offset; });
    all_.space_.prepare_for(2 * chosen.size());
    around.resize(chosen.size());
    try {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const idle_chunk& each = chosen[i];
        claim(*each.first, each.offset, each.offset + each.bytes, around[i]);
      }
    } catch (...) {
      for (const blocks& claimed : around) unclaim(claimed);
      throw;
    }
  }

  std::size_t returned = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    try {
      remove(chosen[i], around[i]);
    } catch (...) {
      all_.memory_.release_detached();
      const state_lock lock{all_.state_mutex_};
      for (; i < around.size(); ++i) unclaim(around[i]);
      throw;
    }
    returned += chosen[i].bytes;
  }
  all_.memory_.release_detached();
  if (returned != 0)
    detail::log<log_level::debug>(
        [&] { return all_.name() + " gave " + format_bytes(returned) + " back to the device"; });
  return {returned, more, !all_.aliases_.empty()};
}

void slow_path::remove(const idle_chunk& chunk, const blocks& around) {
  lift(chunk);
  const state_lock lock{all_.state_mutex_};
  all_.counters_.physical_bytes -= chunk.bytes;
  all_.chunks_.erase(chunk.offset);
  block& empty = *around.front();
  while (empty.end() < chunk.offset + chunk.bytes) all_.space_.join_next(empty);
  all_.make_unmapped(empty);
}

}  // namespace hipvmm::mr::pool
