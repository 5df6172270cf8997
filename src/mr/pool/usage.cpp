// SPDX-License-Identifier: MIT
#include "mr/pool/block_allocator.hpp"

namespace hipvmm::mr::pool {

usage block_allocator::usage_snapshot() {
  const state_lock lock{state_mutex_};
  usage seen;
  seen.address_bytes = memory_.address_bytes();
  seen.physical_bytes = counters_.physical_bytes;
  seen.used_bytes = counters_.used_bytes;
  seen.blocks = space_.blocks();
  seen.states = states_.size();
  std::vector<std::size_t> shares(states_.size());  // what is free, by the states' index
  std::size_t whole_chunks = 0;                     // that lie idle
  std::size_t largest_whole_chunks = 0;             // of the longest stretch
  const block* run = nullptr;
  for (const block* at = &space_.front();; at = at->next) {
    std::size_t whose = block_map::nobody;
    if (at != nullptr && at->state == block_state::free) whose = at->owner->index();
    if (at != nullptr && at->state == block_state::used) {
      whose = small_blocks_.cached_by(at->offset);
      if (whose != block_map::nobody) seen.used_bytes -= at->bytes;
    }
    const bool is_free = whose != block_map::nobody;
    if (is_free) shares[whose] += at->bytes;
    if (is_free && run == nullptr) run = at;
    if (!is_free && run != nullptr) {
      const std::size_t end = at == nullptr ? seen.address_bytes : at->offset;
      std::size_t here = 0;
      for (auto each = chunks_.lower_bound(run->offset);
           each != chunks_.end() && each->first + each->second.bytes <= end; ++each)
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
  for (const stream_state& each : states_) {
    const std::size_t share = shares[each.index()];
    if (each.is_idle() || share != 0) seen.streams.push_back({each.stream(), share});
  }
  seen.largest_moved = seen.largest_run;
  if (memory_.moves_chunks()) seen.largest_moved += whole_chunks - largest_whole_chunks;
  return seen;
}

}  // namespace hipvmm::mr::pool
