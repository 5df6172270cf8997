// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "mr/pool/block_allocator.hpp"
#include "mr/pool/placement.hpp"

namespace hipvmm::mr::pool {

/// One piece of work that needs HIP calls: a request that its own stream's memory does not serve,
/// which climbs the rungs until one does, or a trim. While it runs, its thread is the only one that
/// makes HIP calls for the pool; blocks that it works on outside the lock of the books are busy,
/// which no other thread touches.
class slow_path {
 public:
  slow_path(block_allocator& all, stream_state& user, std::size_t bytes, std::size_t alignment);

  /// Offset of the memory; nullopt when there is none to the end.
  [[nodiscard]] std::optional<std::size_t> serve();
  /// Gives idle chunks back to the device, some at a time, while at least `bytes_to_keep` stay.
  [[nodiscard]] block_allocator::trimmed trim(std::size_t bytes_to_keep);
  /// Ends those that no work under way uses any more. Pre: the lock of misses is held.
  void unmap_old_addresses();
  /// Waits for what streams have not passed yet. Pre: as above.
  void wait_for_streams();

 private:
  using state_lock = block_allocator::state_lock;
  using blocks = std::vector<block*>;
  struct growth;

  // The rungs, each by itself.
  [[nodiscard]] std::optional<std::size_t> take_own(pool_source counted);
  /// The smallest block of other streams that the user's work comes after and that holds the
  /// request.
  [[nodiscard]] std::optional<std::size_t> take_followed();
  [[nodiscard]] std::optional<std::size_t> take_run();
  [[nodiscard]] std::optional<std::size_t> grow();

  /// What streams gave back and have passed becomes idle, for each block once. False when there is
  /// none.
  bool collect_reusable();
  void pass_on(const blocks& taken, stream_state& to, std::uint64_t epoch) noexcept;
  /// Marks each stream that gave back what no mark vouches for.
  void record_fences();
  void poll_fences();
  /// A mark of `whose` that vouches for `epoch`; nullopt, and noted, while the stream is captured.
  [[nodiscard]] std::optional<stream_state::recorded_fence> fence_for(stream_state& whose,
                                                                      std::uint64_t epoch);
  /// Waits until nothing uses what was given back in `taken`. False, and noted, where a capture
  /// forbids that: scan_all() then finds less.
  [[nodiscard]] bool wait_for(const blocks& taken);
  /// Makes the user's work from now on come behind what was given back in `taken`. False as above.
  [[nodiscard]] bool make_user_wait(const blocks& taken);

  /// Backs the next bytes of the place with a new chunk.
  void create(growth& work, std::size_t bytes);
  /// Ends a growth that failed: what is backed stays, as free memory of the user's stream; what has
  /// left its address and has no new one goes back to the device; the rest is free as before.
  void undo(growth& work) noexcept;
  void remove(const idle_chunk& chunk, const blocks& around);
  /// Takes a chunk that nothing uses any more away from all its addresses.
  void lift(const idle_chunk& chunk);
  template <typename Predicate>
  void end_aliases(Predicate is_over);

  // The books are locked for all that follows.
  [[nodiscard]] bool is_usable(const block& one) const noexcept;
  /// Whether the user's work comes behind what was done with it as it is. Pre: it is free.
  [[nodiscard]] bool is_in_order(const block& one) const noexcept;
  [[nodiscard]] bool is_captured(const stream_state& whose) const noexcept;
  /// The smallest free block of any stream that holds the request. A stretch of several may be
  /// smaller, and takes a walk along all addresses to find.
  [[nodiscard]] place one_free_block() const;
  [[nodiscard]] placement_scan scan_all() const;
  void scan_run(block& run, std::size_t end, placement_scan& found) const;
  void scan_gap(block& hole, block* run, placement_scan& found) const;
  /// The same where chunks lie apart: with `gap` bytes left on both sides.
  void scan_inside_gap(block& hole, std::size_t gap, placement_scan& found) const;
  static void note_place(const place& here, placement_scan& found);
  void add_sources(block& first, std::size_t end, placement_scan& found) const;
  /// The chunks to be moved to `target`, in the order of their creation.
  [[nodiscard]] std::vector<idle_chunk> sources_for(const place& target,
                                                    const placement_scan& found) const;
  /// Takes the free blocks of [begin, end) out of the trees, from `first` on, cut to that range,
  /// and adds them to `claimed`. Throws: std::bad_alloc; then nothing changed.
  void claim(block& first, std::size_t begin, std::size_t end, blocks& claimed);
  void unclaim(const blocks& claimed) noexcept;
  /// Makes the claimed blocks from `first` up to `end` one that is used.
  std::size_t make_used_by_user(block& first, std::size_t end, pool_source counted) noexcept;
  /// What it takes to serve the request at `target`; false where the limit forbids that.
  [[nodiscard]] bool plan_for(const place& target, const placement_scan& found, growth& work) const;
  void claim_all(growth& work);
  /// Claims what a growth needs, in the user's order; false where there is no place for it.
  [[nodiscard]] bool begin(growth& work);
  /// Whether what is claimed may be moved: in the user's order, or else no more in use.
  [[nodiscard]] bool may_move(growth& work);
  /// The chunk has left its address: joins what is left there, and gives the chunk's node.
  [[nodiscard]] block_allocator::chunk_map::node_type note_moved(growth& work,
                                                                 std::size_t source) noexcept;
  void note_mapped(growth& work, block_allocator::chunk_map::node_type chunk) noexcept;
  [[nodiscard]] std::size_t granule() const noexcept;
  /// What is backed at once is a multiple of this where chunks can move.
  [[nodiscard]] std::size_t growth_unit() const noexcept;
  /// Bytes of a new chunk at most.
  [[nodiscard]] std::size_t largest_chunk(const growth& work) const noexcept;
  /// Of a chunk that never joins with others.
  [[nodiscard]] std::size_t slab_bytes_for(std::size_t missing) const;
  /// The epoch of memory that becomes the user's by another way than being given back. A thread's
  /// default stream gets only what has passed, for other threads could not mark it.
  [[nodiscard]] std::uint64_t epoch_of_gain() const noexcept {
    return user_.thread() != 0 ? 0 : user_.epoch();
  }

  block_allocator& all_;
  stream_state& user_;
  std::size_t bytes_;
  std::size_t alignment_;
  std::vector<stream_state*> states_;  // those that there were when it began
  // Streams that were found in a capture, or that ended without a mark: nothing tells of their
  // work.
  std::vector<const stream_state*> captured_;
  bool waited_ = false;
};

}  // namespace hipvmm::mr::pool
