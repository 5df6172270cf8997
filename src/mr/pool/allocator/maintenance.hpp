// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "mr/pool/allocator/placement.hpp"
#include "mr/pool/allocator/pool_backing.hpp"
#include "mr/pool/allocator/pool_blocks.hpp"

namespace hipvmm::mr::pool {

/// Work of a pool other than serving requests: it records how far streams have come, unmaps old
/// addresses of moved chunks, releases idle chunks to the device, and waits for streams when no
/// other source is left. Made for one turn on the slow path; unmaps and waits without the locks.
class maintenance {
 public:
  maintenance(pool_blocks& blocks, pool_backing& backing, backing_turn& turn)
      : blocks_{blocks}, backing_{backing}, turn_{turn} {}

  /// Records which fences have passed. States of forgotten streams that have passed are reused for
  /// other streams.
  void poll_fences(const stream_timeline::state_list& states);
  /// Makes a fence for forgotten states that ended without one: it covers all streams.
  void record_forgotten(const stream_timeline::state_list& states);
  /// Makes memory idle that streams freed and have passed. Visits only streams of which more has
  /// passed since the last call. Does nothing unless pool_reuse::allow_opportunistic is on or
  /// `is_forced`. Returns false when there is none.
  bool collect_reusable(const stream_timeline::state_list& states, bool is_forced);
  /// Unmaps the old addresses that nothing uses any more, and addresses that HIP refused to unmap
  /// before. Returns whether any were unmapped.
  bool unmap_old_addresses();
  /// Waits until streams have passed the memory freed in them, unless a capture hides the
  /// work. Captured streams are added to `without_fence`, if not null.
  void wait_for_streams(const stream_timeline::state_list& states,
                        std::vector<const stream_state*>* without_fence = nullptr);

  struct trimmed {
    std::size_t bytes;  ///< released
    bool may_go_on;     ///< more may be left, now or when streams have advanced
  };
  /// Releases some idle chunks, the newest first, while at least `bytes_to_keep` stay. Does not
  /// wait. Chunks for the taker of `gift` come before others.
  [[nodiscard]] trimmed trim(std::size_t bytes_to_keep, chunk_gift* gift = nullptr);

 private:
  using state_lock = pool_blocks::state_lock;
  using unmap_records = std::list<pool_backing::unmap_record>;

  /// Whether work in flight may use some free memory. Pre: the state lock is held.
  [[nodiscard]] bool is_free_memory_in_use() const;
  /// Detaches the old addresses that `is_over` selects, to be released. Throws: as the backend;
  /// then the rest stays.
  template <typename Predicate>
  void detach_old_addresses(Predicate is_over, unmap_records& going);
  /// Detaches a claimed chunk and its old addresses from the backend, to be released.
  void detach(const idle_chunk& chunk, block_index::blocks& around, unmap_records& going);
  /// Releases and returns the bytes of chunks released. Memory that HIP refuses to release is
  /// retried later.
  [[nodiscard]] std::size_t release(unmap_records& going, chunk_gift* gift = nullptr);
  /// Claims the blocks of each chosen chunk; the chunks are ordered by address. Pre: the state lock
  /// is held. Throws: std::bad_alloc; then nothing changed.
  [[nodiscard]] std::vector<block_index::blocks> claim(const std::vector<idle_chunk>& chosen);
  /// Releases the chosen chunks, whose blocks are claimed.
  [[nodiscard]] std::size_t release_chunks(const std::vector<idle_chunk>& chosen,
                                           std::vector<block_index::blocks>& around,
                                           chunk_gift* gift);
  /// Trims a pool whose memory can be released only together with its addresses: it releases all or
  /// nothing. `are_in_transit`: another thread carries blocks from a cache to the index, so a later
  /// trim may find more.
  [[nodiscard]] trimmed trim_with_addresses(std::size_t bytes_to_keep, bool are_in_transit);

  pool_blocks& blocks_;
  pool_backing& backing_;
  backing_turn& turn_;
};

}  // namespace hipvmm::mr::pool
