// SPDX-License-Identifier: MIT
#include "mr/pool/usage.hpp"

#include <algorithm>

namespace hipvmm::mr::pool {

namespace {

/// A run of free memory before unmapped addresses.
struct growing_run {
  std::size_t bytes;
  std::size_t rest;  // without its whole chunks, which stay where they are or move
  std::size_t room;  // unmapped addresses behind it
};

/// The largest part of a request that lies before what moves there. A request goes where the least
/// is missing, the longest run, though less may move there: no more than each such place has.
std::size_t largest_rest(const std::vector<growing_run>& runs, std::size_t limit) {
  const growing_run* longest = nullptr;
  for (const growing_run& each : runs)
    if (each.room >= limit && (longest == nullptr || each.bytes > longest->bytes)) longest = &each;
  if (longest == nullptr) return 0;
  std::size_t rest = longest->rest;
  for (const growing_run& each : runs)
    if (each.bytes >= longest->bytes) rest = std::min(rest, each.rest);
  return rest;
}

}  // namespace

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
  std::vector<growing_run> growing;
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
      const std::size_t bytes = end - run->offset;
      seen.largest_run = std::max(seen.largest_run, bytes);
      if (at != nullptr && at->state == block_state::unmapped)
        growing.push_back({bytes, bytes - here, at->bytes});
      run = nullptr;
    } else if (at != nullptr && at->state == block_state::unmapped) {
      growing.push_back({0, 0, at->bytes});
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
  if (all.memory.moves_chunks())
    seen.largest_before_new = whole_chunks + largest_rest(growing, all.limit);
  seen.largest_moved = std::max(seen.largest_run, seen.largest_before_new);
  return seen;
}

}  // namespace hipvmm::mr::pool
