// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mr/pool/allocator/block_index.hpp"
#include "mr/pool/backend/backend.hpp"

// Searches for places of a request and the steps that each needs. Nothing here changes anything.
namespace hipvmm::mr::pool {

struct request {
  std::size_t bytes;
  std::size_t alignment;
  /// Its stream is being captured: it waits only if there is no other memory.
  bool is_for_graph = false;
  slab_supply* supply = nullptr;  ///< the request's own, if the pool has an upstream
};

class block_filter {
 public:
  [[nodiscard]] virtual bool is_usable(const block& one) const = 0;
  /// Whether the memory of a usable block may be mapped elsewhere for the request.
  [[nodiscard]] virtual bool may_move(const block& one) const = 0;
  /// Whether the block is an old address that could be unmapped now.
  [[nodiscard]] virtual bool may_unmap(const block& one) const = 0;

 protected:
  ~block_filter() = default;
};

struct chunk_rules : backend_traits {
  std::size_t equal_chunk;  ///< the one size of all; 0: sizes may differ
  std::size_t limit;        ///< of all chunks
  std::size_t planned;      ///< bytes of it that others are about to create
  std::size_t largest_chunk = static_cast<std::size_t>(-1);
  bool moves_small_chunks = false;  ///< moves chunks smaller than a new one too, to create less
};

struct idle_chunk {
  std::size_t offset;
  std::size_t bytes;
  std::uint64_t order;    ///< of creation
  std::size_t run_bytes;  ///< of the adjacent free blocks that contain it
  block* first;           ///< the block that it begins in, or one before
};

struct candidate {
  block* first = nullptr;     ///< block that it begins in; nullptr: there is no such place
  std::size_t at = 0;         ///< offset that it begins at
  block* unmapped = nullptr;  ///< addresses to be backed for it; nullptr if all of it is free
  bool unmaps = false;        ///< old addresses among these must be unmapped first
  std::size_t map_at = 0;     ///< offset, in the pool, that the backing begins at
  std::size_t map_bytes = 0;  ///< least that must be backed
  std::size_t map_room = 0;   ///< most that can be backed
  std::size_t kept = 0;       ///< bytes of idle chunks in it
  std::size_t run_bytes = 0;  ///< of a run of free blocks that contains it
};

struct placement_scan {
  candidate free_run;               ///< smallest run of adjacent usable blocks that holds it
  candidate smallest_need;          ///< place for it that needs the least backing
  candidate largest_gap;            ///< place for it with the most that can be backed
  candidate smallest_creation;      ///< place that creates least if all idle chunks outside it move
  std::vector<idle_chunk> sources;  ///< chunks that could be moved
};
/// Throws: std::bad_alloc.
[[nodiscard]] placement_scan scan_placements(const block_index& index, const request& wanted,
                                             const block_filter& filter, const chunk_rules& rules);
void scan_gaps(const block_index& index, const request& wanted, const block_filter& filter,
               const chunk_rules& rules, placement_scan& found);

struct growth_plan {
  candidate target;
  std::vector<idle_chunk> sources;  ///< to be moved there, in the order of their creation
  std::size_t moved = 0;            ///< bytes of these
  std::size_t least = 0;            ///< bytes to be backed that the request needs
  std::size_t wanted = 0;           ///< bytes to be backed
  std::size_t chunk = 0;            ///< bytes of each new chunk but the last one
};
/// The size of equal chunks, a part of the limit. Several fit into `available` bytes of 4 MiB or
/// more, unless the granularity or the number of chunks needs larger ones. Ignores
/// `rules.equal_chunk`.
[[nodiscard]] std::size_t equal_chunk_bytes(std::size_t available,
                                            const chunk_rules& rules) noexcept;
/// nullopt if there is no place, or the limit forbids it. Throws: std::bad_alloc.
[[nodiscard]] std::optional<growth_plan> plan_growth(const block_index& index,
                                                     const request& wanted,
                                                     const placement_scan& found,
                                                     const chunk_rules& rules);

/// Calls visit(first block, end) for each run of blocks in [first, last] that `joins` accepts.
template <typename Joins, typename Visit>
void for_each_run(block& first, const block& last, Joins joins, Visit visit) {
  block* run = nullptr;
  for (block* at = &first;; at = at->next) {
    const bool is_in = joins(*at);
    if (is_in && run == nullptr) run = at;
    if (!is_in && run != nullptr) visit(*std::exchange(run, nullptr), at->offset);
    if (at == &last) break;
  }
  if (run != nullptr) visit(*run, last.end());
}

/// Adds the chunks that are wholly in [first.offset, end), which is free.
void add_idle_chunks(const block_index& index, block& first, std::size_t end,
                     std::vector<idle_chunk>& found);

}  // namespace hipvmm::mr::pool
