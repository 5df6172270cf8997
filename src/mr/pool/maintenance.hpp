// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "mr/pool/allocator_state.hpp"
#include "mr/pool/placement.hpp"

namespace hipvmm::mr::pool {

/// What a pool does besides serving requests: it notes how far streams have come, unmaps old
/// addresses of chunks that have moved, gives idle chunks back to the device, and waits for streams
/// when nothing else is left. Made for one turn on the slow path; unmapping and waiting happen
/// without the locks.
class maintenance {
 public:
  maintenance(allocator_state& all, slow_path_turn& turn) : all_{all}, turn_{turn} {}

  /// Notes what has passed; the states of forgotten streams that have passed serve other streams.
  void poll_fences(const stream_timeline::state_list& states);
  /// Unmaps the old addresses that nothing uses any more, and what HIP refused to unmap before.
  /// Returns whether any went.
  bool unmap_old_addresses();
  /// Waits for what streams have not passed yet; not where a capture hides it. Captured streams are
  /// added to `without_fence`.
  void wait_for_streams(const stream_timeline::state_list& states,
                        std::vector<const stream_state*>& without_fence);

  struct trimmed {
    std::size_t bytes;  ///< released
    bool may_go_on;     ///< there may be more, now or when streams have come further
  };
  /// Gives some idle chunks back, those created last first, while at least `bytes_to_keep` stay.
  /// Waits for nobody.
  [[nodiscard]] trimmed trim(std::size_t bytes_to_keep);

 private:
  using state_lock = allocator_state::state_lock;
  using unmappings = std::list<allocator_state::unmapping>;

  void recycle_forgotten();
  /// Makes a fence for forgotten states that ended without one: it covers all streams.
  void record_forgotten(const stream_timeline::state_list& states);
  /// Takes out the old addresses that `is_over` chooses, to be released. Throws: as the backend;
  /// then the rest stays.
  template <typename Predicate>
  void detach_old_addresses(Predicate is_over, unmappings& going);
  /// Takes a claimed chunk and its old addresses out of the backend, to be released.
  void detach(const idle_chunk& chunk, block_index::blocks& around, unmappings& going);
  /// Returns the bytes of chunks that went; what HIP refuses is tried again later.
  [[nodiscard]] std::size_t release(unmappings& going);
  /// Claims the blocks of each chosen chunk, which lie in the order of addresses. Pre: the state
  /// lock is held. Throws: std::bad_alloc; then nothing changed.
  [[nodiscard]] std::vector<block_index::blocks> claim(const std::vector<idle_chunk>& chosen);
  /// Releases the chosen chunks, whose blocks are claimed.
  [[nodiscard]] std::size_t release_chunks(const std::vector<idle_chunk>& chosen,
                                           std::vector<block_index::blocks>& around);
  /// A pool whose memory comes back only with its addresses gives all back or nothing.
  [[nodiscard]] trimmed trim_with_addresses(std::size_t bytes_to_keep);

  allocator_state& all_;
  slow_path_turn& turn_;
};

}  // namespace hipvmm::mr::pool
