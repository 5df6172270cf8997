// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/capture_mode.hpp"
#include "core/error.hpp"
#include "mr/pool/allocator/maintenance.hpp"
#include "mr/pool/allocator/placement.hpp"
#include "mr/pool/allocator/pool_backing.hpp"
#include "mr/pool/allocator/pool_blocks.hpp"

namespace hipvmm::mr::pool {

/// Serves a request for which its own stream lacks free memory: it tries the sources of pool_source
/// in turn (docs/design/one_growth_and_one_allocation.md, steps 4 to 7). Only the thread that has
/// the turn creates, maps and records. It releases the turn while it waits. Blocks that it uses
/// without the state lock are busy.
class slow_path final : block_filter {
 public:
  slow_path(pool_blocks& all_blocks, pool_backing& backing, stream_state& user,
            const request& wanted);
  ~slow_path();
  slow_path& operator=(slow_path&&) = delete;

  /// Returns the offset of the memory; nullopt if the limit or the addresses leave none. Throws:
  /// out_of_memory if the source of memory refused it; hip_error; std::logic_error while asleep.
  [[nodiscard]] std::optional<std::size_t> serve();

 private:
  using state_lock = pool_blocks::state_lock;
  using blocks = block_index::blocks;
  struct growth;
  struct pass {
    std::uint64_t reclaimed;                    // backend's count when the pass began
    unsigned times_away;                        // turn's count when the pass began
    bool missed_a_run = false;                  // a run became free after take_run() found none
    std::optional<out_of_memory> refused = {};  // by the device
  };

  /// Throws: std::logic_error while the memory sleeps. Called at the start and after each wait,
  /// because another thread may have put it to sleep. A sleeping pool takes and maps nothing,
  /// because suspend() has already counted its memory.
  void require_awake() const;

  // The steps of serve().
  [[nodiscard]] std::optional<std::size_t> take_free();
  /// nullopt without a place, or if the device refused memory, which pass_.refused then says.
  [[nodiscard]] std::optional<std::size_t> add_backing();
  /// Waits until there may be more memory. Returns false if nothing is left to wait for.
  [[nodiscard]] bool wait_for_memory();

  // The sources.
  [[nodiscard]] std::optional<std::size_t> take_own(pool_source counted);
  /// Takes the smallest block of other streams that the user's work is ordered after.
  [[nodiscard]] std::optional<std::size_t> take_followed();
  /// Records fences, and makes the memory idle that streams have passed.
  [[nodiscard]] std::optional<std::size_t> take_passed();
  /// Takes the smallest free block of any stream, or else the smallest run of several.
  [[nodiscard]] std::optional<std::size_t> take_run();
  [[nodiscard]] std::optional<std::size_t> grow();

  /// Makes all free memory visible to a scan, except memory that others use without the lock.
  void uncover_free_memory();

  /// Whether the request has neither a stream nor a capture, because allocate_sync() may wait.
  [[nodiscard]] bool may_wait() const noexcept { return user_.is_idle() && !request_.is_for_graph; }
  /// Waits for memory freed without a stream, if that serves the request.
  [[nodiscard]] std::optional<std::size_t> wait_for_all_streams();
  /// Waits for memory freed in streams, if one block of it serves a request that may wait. Work of
  /// any length may precede the free, so the wait is bounded: by the price of a new chunk times the
  /// square of held / needed bytes, a ratio of at most 4.
  [[nodiscard]] std::optional<std::size_t> wait_briefly();
  [[nodiscard]] bool is_freed_in_a_stream();
  /// Waits until nothing uses the memory in `taken`. Returns false if a capture forbids that: the
  /// stream counts as untracked, and the next scan finds less.
  [[nodiscard]] bool wait_for(const blocks& taken);
  /// The same, but the user's stream waits, if there is one. The caller waits only in the last
  /// resort, for memory freed without a stream, or if the switch forbids the stream's wait.
  [[nodiscard]] bool make_user_wait(const blocks& taken);
  /// Makes the newest fence of the user's stream cover all that it waits for. Fails as wait_for().
  [[nodiscard]] bool renew_user_fence();
  /// Returns false.
  bool mark_untracked(const stream_state& whose);

  void choose_equal_chunk();
  /// Plans a growth, claims its memory and orders the user's work after the work on that; false if
  /// there is no place.
  [[nodiscard]] bool begin(growth& work);
  void claim_all(growth& work);
  /// `bytes` of the plan have been created, or will not be.
  void end_plan(growth& work, std::size_t bytes) noexcept;
  /// As make_user_wait(), for the sources. Without aliases, or for a thread's own stream, the
  /// caller waits, as wait_for().
  [[nodiscard]] bool may_move_sources(growth& work);
  void move_by_alias(growth& work);
  void move_by_remap(growth& work);
  void create(growth& work, std::size_t bytes);
  /// Ends a failed growth: backed memory stays free for the user, chunks that have no address any
  /// more are released to the device, and the rest is free as before.
  void undo(growth& work) noexcept;
  /// Notes memory that HIP refused to unmap, to be unmapped later. Until then it counts as held,
  /// and `left` stays busy, so that requests go elsewhere. Returns whether there was any.
  [[nodiscard]] bool defer_unmap(block& left) noexcept;
  std::size_t finish(growth& work) noexcept;

  // Called with the state lock.
  [[nodiscard]] bool is_usable(const block& one) const override;
  [[nodiscard]] bool may_move(const block& one) const override;
  [[nodiscard]] bool may_unmap(const block& one) const override;
  /// Whether the user's work can be ordered after that stream's.
  [[nodiscard]] bool may_be_ordered(const stream_state& owner) const;
  /// Whether the user's work is ordered after the work on a free block.
  [[nodiscard]] bool is_in_order(const block& one) const;
  [[nodiscard]] bool is_without_fence(const stream_state& whose) const;
  [[nodiscard]] candidate one_free_block();
  /// Frees a busy block that got backing and that the request does not need.
  void free_surplus(block& gained) noexcept;

  pool_blocks& blocks_;
  pool_backing& backing_;
  stream_state& user_;
  request request_;
  // The states that existed when the request, or the newest pass of the last resort, began.
  stream_timeline::state_list states_;
  // Streams in a capture, or that ended without a fence: their work cannot be tracked.
  std::vector<const stream_state*> without_fence_;
  pass pass_{};    // the present one
  int scans_ = 0;  // that found nothing since the last resort began
  detail::retry_rounds rounds_;
  bool asked_others_ = false;     // reclaim() may have set aside chunks of others
  bool waited_ = false;           // the last resort has begun
  bool is_memory_short_ = false;  // the source refused memory: now smaller chunks move too
  std::optional<std::chrono::steady_clock::time_point> brief_wait_began_;
  bool may_unmap_ = true;  // false after an attempt that unmapped nothing
  backing_turn turn_;
  // From the first fence on, so that a request changes the thread's mode once.
  std::optional<detail::relaxed_captures> relaxed_;
  maintenance maintenance_;
};

}  // namespace hipvmm::mr::pool
