// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mr/pool/allocator/block_index.hpp"
#include "mr/pool/backend/backend.hpp"

// Places for a request, and the steps that each needs. Changes nothing.
namespace hipvmm::mr::pool {

struct request {
  std::size_t bytes;
  std::size_t alignment;
  /// Its stream is being captured, so it waits only if there is no other memory.
  bool is_for_graph = false;
  slab_supply* supply = nullptr;  ///< if the pool has an upstream
};

class block_filter {
 public:
  [[nodiscard]] virtual bool is_usable(const block& one) const = 0;
  /// Whether a usable block's memory may be mapped elsewhere.
  [[nodiscard]] virtual bool may_move(const block& one) const = 0;
  /// Whether it is an old address that can be unmapped now.
  [[nodiscard]] virtual bool may_unmap(const block& one) const = 0;

 protected:
  ~block_filter() = default;
};

struct chunk_rules : backend_traits {
  std::size_t equal_chunk;  ///< the size of all; 0: sizes may differ
  std::size_t limit;        ///< bytes of all chunks
  std::size_t planned;      ///< bytes that others are about to create
  std::size_t largest_chunk = static_cast<std::size_t>(-1);
  bool moves_small_chunks = false;  ///< even those smaller than a new one
};

struct idle_chunk {
  std::size_t offset;
  std::size_t bytes;
  std::uint64_t order;    ///< of creation
  std::size_t run_bytes;  ///< of the free blocks around it
  block* first;           ///< at or before its start
};

struct candidate {
  block* first = nullptr;  ///< that it begins in; nullptr: there is no such place
  std::size_t at = 0;
  block* unmapped = nullptr;  ///< addresses to be backed; nullptr if all of it is free
  bool unmaps = false;        ///< some of these are old addresses, to be unmapped first
  std::size_t map_at = 0;
  std::size_t map_bytes = 0;  ///< least backing
  std::size_t map_room = 0;   ///< most backing
  std::size_t kept = 0;       ///< bytes of idle chunks in it
  std::size_t run_bytes = 0;
};

struct placement_scan {
  candidate free_run;           ///< the smallest run of usable blocks that holds the request
  candidate smallest_need;      ///< the place that needs the least backing
  candidate largest_gap;        ///< the place where most can be backed
  candidate smallest_creation;  ///< the place that creates least if idle chunks elsewhere move
  std::vector<idle_chunk> sources;
};
/// Throws: std::bad_alloc.
[[nodiscard]] placement_scan scan_placements(const block_index& index, const request& wanted,
                                             const block_filter& filter, const chunk_rules& rules);
void scan_gaps(const block_index& index, const request& wanted, const block_filter& filter,
               const chunk_rules& rules, placement_scan& found);

struct growth_plan {
  candidate target;
  std::vector<idle_chunk> sources;  ///< in the order of their creation
  std::size_t moved = 0;            ///< bytes of `sources`
  std::size_t least = 0;            ///< backing that the request needs
  std::size_t wanted = 0;           ///< backing to be made
  std::size_t chunk = 0;            ///< bytes of each new chunk but the last
};
/// A part of the limit. Several fit into `available` bytes of 4 MiB or more, unless the granularity
/// or most_chunks needs larger ones. Ignores `rules.equal_chunk`.
[[nodiscard]] std::size_t equal_chunk_bytes(std::size_t available,
                                            const chunk_rules& rules) noexcept;
/// nullopt if there is no place, or the limit forbids it. Throws: std::bad_alloc.
[[nodiscard]] std::optional<growth_plan> plan_growth(const block_index& index,
                                                     const request& wanted,
                                                     const placement_scan& found,
                                                     const chunk_rules& rules);

/// Calls visit(first, end) for each run of blocks in [first, last] that `joins` accepts.
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

/// Adds chunks that are wholly in the free range [first.offset, end).
void add_idle_chunks(const block_index& index, block& first, std::size_t end,
                     std::vector<idle_chunk>& found);

}  // namespace hipvmm::mr::pool
