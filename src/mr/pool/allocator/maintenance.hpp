// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "mr/pool/allocator/placement.hpp"
#include "mr/pool/allocator/pool_backing.hpp"
#include "mr/pool/allocator/pool_blocks.hpp"

namespace hipvmm::mr::pool {

/// One turn's work other than serving requests. Unmaps and waits without the locks.
class maintenance {
 public:
  maintenance(pool_blocks& blocks, pool_backing& backing, backing_turn& turn)
      : blocks_{blocks}, backing_{backing}, turn_{turn} {}

  /// Also vacates states of forgotten streams that have passed.
  void poll_fences(const stream_timeline::state_list& states);
  /// Makes a fence for all devices for forgotten states that lack one.
  void record_forgotten(const stream_timeline::state_list& states);
  /// Makes memory idle that streams have passed; false if there is none. Does nothing without
  /// pool_reuse::allow_opportunistic, unless `is_forced`.
  bool collect_reusable(const stream_timeline::state_list& states, bool is_forced);
  /// Unmaps old addresses that no work uses, and those refused before. Returns whether any went.
  bool unmap_old_addresses();
  /// Waits for work on freed memory. Adds captured streams to `without_fence`.
  void wait_for_streams(const stream_timeline::state_list& states,
                        std::vector<const stream_state*>* without_fence = nullptr);

  struct trimmed {
    std::size_t bytes;
    bool may_go_on;  ///< more may follow, now or later
  };
  /// Releases some idle chunks without a wait: those for the taker of `gift` first, then the
  /// newest. At least `bytes_to_keep` stay; but if memory returns only with its addresses and more
  /// is held, all goes or nothing.
  [[nodiscard]] trimmed trim(std::size_t bytes_to_keep, chunk_gift* gift = nullptr);

 private:
  using state_lock = pool_blocks::state_lock;
  using unmap_records = std::list<pool_backing::unmap_record>;

  /// With the state lock.
  [[nodiscard]] bool is_free_memory_in_use() const;
  /// Throws: as the backend; the rest stays.
  template <typename Predicate>
  void detach_old_addresses(Predicate is_over, unmap_records& going);
  void detach(const idle_chunk& chunk, block_index::blocks& around, unmap_records& going);
  /// Returns the bytes of chunks released. Keeps what HIP refuses.
  [[nodiscard]] std::size_t release(unmap_records& going, chunk_gift* gift = nullptr);
  /// With the state lock; `chosen` is by address. Throws: std::bad_alloc; nothing changed.
  [[nodiscard]] std::vector<block_index::blocks> claim(const std::vector<idle_chunk>& chosen);
  [[nodiscard]] std::size_t release_chunks(const std::vector<idle_chunk>& chosen,
                                           std::vector<block_index::blocks>& around,
                                           chunk_gift* gift);
  /// All or nothing. `are_in_transit`: blocks are on their way to the index.
  [[nodiscard]] trimmed trim_with_addresses(std::size_t bytes_to_keep, bool are_in_transit);

  pool_blocks& blocks_;
  pool_backing& backing_;
  backing_turn& turn_;
};

}  // namespace hipvmm::mr::pool
