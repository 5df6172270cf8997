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

/// Serves a request for which its own stream lacks free memory. Tries the sources of pool_source in
/// turn (docs/design/one_growth_and_one_allocation.md). Waits without the turn; only the thread
/// that has it creates, maps and records.
class slow_path final : block_filter {
 public:
  slow_path(pool_blocks& all_blocks, pool_backing& backing, stream_state& user,
            const request& wanted);
  ~slow_path();
  slow_path& operator=(slow_path&&) = delete;

  /// nullopt if the limit or the addresses leave no memory. Throws: out_of_memory if the backend
  /// refused it; hip_error; std::logic_error while asleep.
  [[nodiscard]] std::optional<std::size_t> serve();

 private:
  using state_lock = pool_blocks::state_lock;
  using blocks = block_index::blocks;
  struct growth;
  struct pass {
    std::uint64_t reclaimed;                    // the backend's count when the pass began
    unsigned times_away;                        // the turn's count when the pass began
    bool missed_a_run = false;                  // a run became free after take_run() found none
    std::optional<out_of_memory> refused = {};  // by the device
  };

  /// Called at the start and after waits, in which the memory may fall asleep. A sleeping pool
  /// takes and maps nothing, because suspend() has already counted its memory. Throws:
  /// std::logic_error.
  void require_awake() const;

  // The steps of serve().
  [[nodiscard]] std::optional<std::size_t> take_free();
  /// nullopt without a place, or if the device refused memory (pass_.refused).
  [[nodiscard]] std::optional<std::size_t> add_backing();
  /// Returns false if nothing is left to wait for.
  [[nodiscard]] bool wait_for_memory();

  // The sources.
  [[nodiscard]] std::optional<std::size_t> take_own(pool_source counted);
  /// Takes the smallest block of other streams that the user's work is ordered after.
  [[nodiscard]] std::optional<std::size_t> take_followed();
  /// That block, or null. With the state lock.
  [[nodiscard]] block* followed_block();
  /// Records fences, and makes the memory idle that streams have passed.
  [[nodiscard]] std::optional<std::size_t> take_passed();
  /// Takes the smallest free block of any stream, else the smallest run.
  [[nodiscard]] std::optional<std::size_t> take_run();
  [[nodiscard]] std::optional<std::size_t> grow();

  /// Makes free memory visible to a scan, unless others use it without the lock.
  void uncover_free_memory();

  /// Whether the request has neither a stream nor a capture, as in allocate_sync().
  [[nodiscard]] bool may_wait() const noexcept { return user_.is_idle() && !request_.is_for_graph; }
  /// Waits for memory freed without a stream, if that serves the request.
  [[nodiscard]] std::optional<std::size_t> wait_for_all_streams();
  /// Waits for one block of memory freed in a stream. The wait is bounded, because work of any
  /// length may precede the free. The bound is the price of a new chunk times the square of held /
  /// needed bytes, a ratio of at most 4.
  [[nodiscard]] std::optional<std::size_t> wait_briefly();
  [[nodiscard]] bool is_freed_in_a_stream();
  /// Waits until nothing uses the blocks. If a capture forbids that, marks the stream untracked and
  /// returns false; the next scan finds less.
  [[nodiscard]] bool wait_for(const blocks& taken);
  /// The same, but the user's stream waits, if there is one. In the last resort the caller waits
  /// where that is not possible.
  [[nodiscard]] bool make_user_wait(const blocks& taken);
  /// Makes the newest fence of the user's stream cover all that it waits for. Fails as wait_for().
  [[nodiscard]] bool renew_user_fence();
  /// Returns false.
  bool mark_untracked(const stream_state& whose);

  void choose_equal_chunk();
  /// Claims memory, and orders the user's work after the work on it; false without a place.
  [[nodiscard]] bool begin(growth& work);
  void claim_all(growth& work);
  /// `bytes` of the plan were created, or will not be.
  void end_plan(growth& work, std::size_t bytes) noexcept;
  /// As make_user_wait(), or as wait_for() without aliases and for a thread's stream.
  [[nodiscard]] bool may_move_sources(growth& work);
  void move_by_alias(growth& work);
  void move_by_remap(growth& work);
  void create(growth& work, std::size_t bytes);
  /// Backed memory becomes free for the user, and chunks without an address are released.
  void undo(growth& work) noexcept;
  /// Keeps memory that HIP refused to unmap, as held and busy. Returns whether there was any.
  [[nodiscard]] bool defer_unmap(block& left) noexcept;
  std::size_t finish(growth& work) noexcept;

  // Called with the state lock.
  [[nodiscard]] bool is_usable(const block& one) const override;
  [[nodiscard]] bool may_move(const block& one) const override;
  [[nodiscard]] bool may_unmap(const block& one) const override;
  [[nodiscard]] bool may_be_ordered(const stream_state& owner) const;
  /// Whether the user's work is ordered after the work on a free block.
  [[nodiscard]] bool is_in_order(const block& one) const;
  [[nodiscard]] bool is_without_fence(const stream_state& whose) const;
  [[nodiscard]] candidate one_free_block();
  /// Frees backed memory that the request does not need.
  void free_surplus(block& gained) noexcept;

  pool_blocks& blocks_;
  pool_backing& backing_;
  stream_state& user_;
  request request_;
  // From the start of the request, or of the newest pass of the last resort.
  stream_timeline::state_list states_;
  // Streams in a capture, or gone without a fence: their work cannot be tracked.
  std::vector<const stream_state*> without_fence_;
  pass pass_{};
  int scans_ = 0;  // without success in the last resort
  detail::retry_rounds rounds_;
  bool asked_others_ = false;     // so chunks of others may be set aside
  bool waited_ = false;           // the last resort has begun
  bool is_memory_short_ = false;  // the source refused memory: now smaller chunks move too
  std::optional<std::chrono::steady_clock::time_point> brief_wait_began_;
  bool may_unmap_ = true;  // false after an attempt that unmapped nothing
  backing_turn turn_;
  // From the first fence on, so that the thread's mode changes once.
  std::optional<detail::relaxed_captures> relaxed_;
  maintenance maintenance_;
};

}  // namespace hipvmm::mr::pool
