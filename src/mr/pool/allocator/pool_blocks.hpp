// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include "core/observers/memory_events.hpp"
#include "core/ranked_mutex.hpp"
#include "mr/pool/allocator/block_index.hpp"
#include "mr/pool/allocator/placement.hpp"
#include "mr/pool/allocator/small_blocks.hpp"
#include "mr/pool/allocator/stream_timeline.hpp"
#include "mr/pool/backend/backend.hpp"

namespace hipvmm::mr::pool {

/// The state lock `mutex` guards all members from `streams` on. It is taken after the slow-path
/// lock and held for steps in trees. Long work holds neither lock: its blocks are busy, and no
/// other thread touches busy blocks.
struct pool_blocks {
  using state_lock = stream_timeline::state_lock;

  pool_blocks(const memory_backend& backend, fence_source& fences, std::uintptr_t base)
      : memory{backend},
        small_blocks{backend.traits.address_bytes},
        streams{fences, mutex},
        index{backend.traits.address_bytes, base, streams.idle()} {}
  /// Empties the trees of the streams, because the index ends first.
  ~pool_blocks() {
    for (stream_state& each : streams.states()) each.free().clear();
  }
  pool_blocks& operator=(pool_blocks&&) = delete;

  const memory_backend& memory;
  detail::event_origin events{memory_event_source::pool, 0, -1};  // set before the first request
  block_map small_blocks;                                         // uses atomics, no lock
  // Requests in their last resort, and a sleep. Caches keep nothing unless it is 0.
  std::atomic<int> waiting_requests{0};
  // Threads that carry blocks between a cache and the index.
  std::atomic<int> blocks_in_transit{0};

  // In a cache line of its own, because most frees take no lock.
  alignas(64) detail::ranked_mutex mutex{detail::lock_rank::pool_state};
  stream_timeline streams;
  block_index index;
  std::size_t limit = static_cast<std::size_t>(-1);
  std::size_t largest_chunk = static_cast<std::size_t>(-1);
  std::size_t equal_chunk = 0;    // the one size, if chunks must have one; 0: not chosen yet
  std::size_t planned_bytes = 0;  // about to be created by slow paths
  pool_reuse reuse;
  std::array<std::uint64_t, pool_source_count> served{};
  std::uint64_t chunks_created = 0;
  std::uint64_t chunks_moved = 0;
  const std::string* refusal = nullptr;  // while asleep, the text that refuses requests

  template <typename Work>
  std::invoke_result_t<Work> with_lock(Work work) {
    const state_lock lock{mutex};
    return work();
  }

  // Called with the state lock.
  /// Throws: std::logic_error while asleep.
  void require_awake() const;
  [[nodiscard]] chunk_rules rules() const;
  /// Pinned chunks count as held unless their exact size is needed. Throws: std::bad_alloc.
  [[nodiscard]] std::optional<growth_plan> plan(const request& wanted, const placement_scan& found,
                                                chunk_rules rules) const;
  /// If chunks must have one size and none is mapped, chooses it: several fit into `available`.
  void choose_equal_chunk(std::size_t available);
  /// Returns false, with nothing done, if no such block is used.
  [[nodiscard]] bool free_used(stream_state& user, std::size_t offset, std::size_t bytes,
                               bool has_fence = false) noexcept;
  /// Merges the busy blocks up to `end`, and returns the offset.
  std::size_t make_used(block& first, std::size_t end, stream_state& user,
                        pool_source counted) noexcept;
  /// Throws: std::bad_alloc; std::logic_error while asleep.
  [[nodiscard]] std::optional<std::size_t> take_own(stream_state& user, const request& wanted,
                                                    pool_source counted);

  /// Visits a block once even if it moves to another cache. Throws: std::bad_alloc; as `visit`.
  template <typename Visit>
  void for_each_cached(Visit visit) {
    std::vector<std::pair<block*, stream_state*>> found;
    for (stream_state& each : streams.states())
      each.for_each_cache([&](thread_cache& cache) {
        cache.for_each([&](std::size_t offset) {
          if (block* const one = index.find(offset)) found.emplace_back(one, &each);
        });
      });
    std::ranges::sort(found);
    const block* last = nullptr;
    for (const auto& [one, owner] : found)
      if (std::exchange(last, one) != one) visit(*owner, *one);
  }

  // Without the state lock.
  void free_cached(stream_state& user, std::size_t bytes, const std::size_t* offsets,
                   std::size_t count) noexcept;
  void empty_caches(stream_state& user) noexcept;
  void empty_caches(const stream_timeline::state_list& users) noexcept {
    for (stream_state* const each : users) empty_caches(*each);
  }

  // With or without it.
  [[nodiscard]] std::size_t physical_bytes() const noexcept {
    return index.physical_bytes() + memory.pinned_bytes();
  }
  void report_event(memory_event_kind kind, std::size_t offset, std::size_t bytes,
                    const void* stream = nullptr) const noexcept;
};

/// `start`: of the pool's addresses; 0: it has slabs.
[[nodiscard]] std::string name_of_pool(std::uintptr_t start);

}  // namespace hipvmm::mr::pool
