// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mr/pool/allocator_state.hpp"
#include "mr/pool/maintenance.hpp"
#include "mr/pool/placement.hpp"

namespace hipvmm::mr::pool {

/// Serves a request that needs more than its own stream's free memory: it tries the sources of
/// pool_source in turn until one serves it. While it has its turn, its thread is the only one that
/// makes HIP calls for the pool; it gives the turn away where it waits. Blocks that it works on
/// without the state lock are busy, which no other thread touches.
class slow_path final : block_filter {
 public:
  slow_path(allocator_state& all, stream_state& user, const request& wanted);

  /// Offset of the memory; nullopt when there is none to the end.
  [[nodiscard]] std::optional<std::size_t> serve();

 private:
  using state_lock = allocator_state::state_lock;
  using blocks = block_index::blocks;
  struct growth;

  // The sources, each by itself.
  [[nodiscard]] std::optional<std::size_t> take_own(pool_source counted);
  /// The smallest block of other streams that the user's work is ordered behind.
  [[nodiscard]] std::optional<std::size_t> take_followed();
  /// The smallest free block of any stream, else the smallest run of several.
  [[nodiscard]] std::optional<std::size_t> take_run();
  [[nodiscard]] std::optional<std::size_t> grow();

  /// Whether it may wait while there may be other memory: both sides of a pair of calls without a
  /// stream may.
  [[nodiscard]] bool may_wait() const noexcept { return user_.is_idle() && !wanted_.is_for_graph; }
  /// Waits for what was freed without a stream, where that serves the request. False when there is
  /// none.
  bool wait_for_all_streams();
  /// What streams freed and have passed becomes idle, for each block once, unless
  /// pool_reuse::allow_opportunistic is off and it is not `wanted_anyway`. False when there is
  /// none.
  bool collect_reusable(bool wanted_anyway);
  /// Waits until nothing uses what was freed in `taken`. False where a capture forbids that: the
  /// stream is noted, and the next scan finds less.
  [[nodiscard]] bool wait_for(const blocks& taken);
  /// Orders the user's work from now on behind what was freed in `taken`. False as above.
  [[nodiscard]] bool make_user_wait(const blocks& taken);

  /// Claims what a growth needs, ordered before the user's work; false where there is no place.
  [[nodiscard]] bool begin(growth& work);
  void claim_all(growth& work);
  /// So many bytes of the plan have been created, or will not be.
  void end_plan(growth& work, std::size_t bytes) noexcept;
  /// Whether the claimed sources may be moved: what they hold is ordered before the user's work, or
  /// no more in use.
  [[nodiscard]] bool may_move_sources(growth& work);
  void move_by_alias(growth& work);
  void move_by_remap(growth& work);
  /// Backs the next bytes of the place with a new chunk.
  void create(growth& work, std::size_t bytes);
  /// Ends a growth that failed: what is backed stays, as free memory of the user's stream; what has
  /// left its address and has no new one goes back to the device; the rest is free as before.
  void undo(growth& work) noexcept;
  std::size_t finish(growth& work) noexcept;

  // Called with the state lock.
  [[nodiscard]] bool is_usable(const block& one) const override;
  [[nodiscard]] bool may_move(const block& one) const override;
  [[nodiscard]] bool may_unmap(const block& one) const override;
  /// Whether the user's work can be ordered behind that stream's.
  [[nodiscard]] bool may_be_ordered(const stream_state& owner) const;
  /// Whether the user's work is ordered behind what was done with a free block.
  [[nodiscard]] bool is_in_order(const block& one) const;
  [[nodiscard]] bool is_without_fence(const stream_state& whose) const;
  [[nodiscard]] place one_free_block();
  /// Makes the busy blocks from `first` up to `end` one that the user has.
  std::size_t hand_to_user(block& first, std::size_t end, pool_source counted) noexcept;
  [[nodiscard]] chunk_rules rules() const;
  /// Frees a busy block that got backing: the user's, without being freed by it.
  void free_gain(block& gained) noexcept;

  allocator_state& all_;
  stream_state& user_;
  request wanted_;
  stream_timeline::state_list states_;  // those that there were when it began
  // Streams that were found in a capture, or that ended without a fence: nothing tells of their
  // work.
  std::vector<const stream_state*> without_fence_;
  bool waited_ = false;
  bool may_unmap_ = true;  // no more when HIP has refused
  slow_path_turn turn_;
  maintenance maintenance_;
};

}  // namespace hipvmm::mr::pool
