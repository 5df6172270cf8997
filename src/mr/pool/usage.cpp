// SPDX-License-Identifier: MIT
#include "mr/pool/usage.hpp"

#include <algorithm>

namespace hipvmm::mr::pool {

usage usage_snapshot(allocator_state& all) {
  const allocator_state::state_lock lock{all.state_mutex};
  const block_index& index = all.index;
  usage seen;
  seen.address_bytes = index.address_bytes();
  seen.physical_bytes = index.physical_bytes();
  seen.used_bytes = index.used_bytes();
  seen.blocks = index.block_count();
  seen.states = all.streams.states().size();
  std::vector<std::size_t> shares(seen.states);  // what is free, by the states' index
  std::size_t whole_chunks = 0;                  // that lie idle
  std::size_t largest_whole_chunks = 0;          // of the longest run
  const block* run = nullptr;
  for (const block* at = &index.front();; at = at->next) {
    const stream_state* whose = nullptr;
    if (at != nullptr && at->state == block_state::free) whose = &owner_of(*at);
    if (at != nullptr && at->state == block_state::used) {
      const std::size_t cached_by = all.small_blocks.cached_by(at->offset);
      if (cached_by != block_map::nobody) {
        whose = all.streams.with_id(cached_by);
        seen.used_bytes -= at->bytes;
      }
    }
    if (whose != nullptr) shares[whose->index()] += at->bytes;
    if (whose != nullptr && run == nullptr) run = at;
    if (whose == nullptr && run != nullptr) {
      const std::size_t end = at == nullptr ? seen.address_bytes : at->offset;
      std::size_t here = 0;
      for (auto each = index.chunks().lower_bound(run->offset);
           each != index.chunks().end() && each->first + each->second.bytes <= end; ++each)
        here += each->second.bytes;
      whole_chunks += here;
      if (end - run->offset > seen.largest_run) {
        seen.largest_run = end - run->offset;
        largest_whole_chunks = here;
      }
      run = nullptr;
    }
    if (at == nullptr) break;
    if (at->state != block_state::unmapped) seen.mapped_bytes += at->bytes;
  }
  // What was freed without a stream counts as idle: it waits for work, not for a stream.
  shares.front() += shares[all.streams.all_streams().index()];
  for (const stream_state& each : all.streams.states()) {
    if (each.is_all_streams()) continue;
    const std::size_t share = shares[each.index()];
    if (each.is_idle() || share != 0) seen.streams.push_back({each.stream(), share});
  }
  seen.largest_moved = seen.largest_run;
  if (all.memory.moves_chunks()) seen.largest_moved += whole_chunks - largest_whole_chunks;
  return seen;
}

}  // namespace hipvmm::mr::pool
