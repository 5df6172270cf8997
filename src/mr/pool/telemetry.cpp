// SPDX-License-Identifier: MIT
#include "mr/pool/engine.hpp"

namespace hipvmm::mr::pool {

telemetry engine::look() {
  const books_lock lock{books_};
  telemetry seen;
  seen.address_bytes = memory_.address_bytes();
  seen.physical_bytes = counters_.physical_bytes;
  seen.used_bytes = counters_.used_bytes;
  seen.blocks = space_.blocks();
  for (stream_ledger& each : ledgers_) {
    std::size_t free_bytes = 0;
    for (const block& one : each.free()) free_bytes += one.bytes;
    if (each.is_idle() || free_bytes != 0) seen.streams.push_back({each.stream(), free_bytes});
  }
  std::size_t whole_chunks = 0;          // that lie idle
  std::size_t largest_whole_chunks = 0;  // of the longest stretch
  const block* run = nullptr;
  for (const block* at = &space_.front();; at = at->next) {
    const bool is_free = at != nullptr && at->state == block_state::free;
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
  seen.largest_moved = seen.largest_run + whole_chunks - largest_whole_chunks;
  return seen;
}

}  // namespace hipvmm::mr::pool
