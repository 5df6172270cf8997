// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/placement.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <hipvmm/core/bytes.hpp>

namespace hipvmm::mr::pool {
namespace {

// Many chunks are slow to make; large ones hold memory that is not needed (pool_design.md).

/// A new chunk has 1/chunks_per_doubling of the pool's memory,
constexpr std::size_t chunks_per_doubling = 8;
/// or 1/chunks_per_growth of the growth, if that is more: then one request takes few chunks.
constexpr std::size_t chunks_per_growth = 4;
/// Bounds of the share of the memory, and of the cut of a growth.
constexpr std::size_t smallest_share = 2 * MiB;
constexpr std::size_t largest_share = 128 * MiB;
constexpr std::size_t least_cut = 8 * MiB;
constexpr std::size_t largest_cut = 256 * MiB;
/// A growth is rounded up to a chunk. If more than 1/largest_free_part of the pool would be free,
/// it is rounded up to less, but at least to 1/growths_per_chunk of one.
constexpr std::size_t growths_per_chunk = 4;
constexpr std::size_t largest_free_part = 8;
/// If a device takes chunks of one size only, the limit is divided into at least so many.
constexpr std::size_t equal_chunks = 128;
constexpr std::size_t largest_equal_chunk = 128 * MiB;

/// Keeps the number of chunks within rules.most_chunks: in a small pool by a part of the memory
/// held, in a large one by a part of the limit.
std::size_t least_for_count(std::size_t held, const chunk_rules& rules) noexcept {
  if (rules.most_chunks == 0) return 0;
  const std::size_t even = 2 * (rules.limit / rules.most_chunks);
  const std::size_t share = 16 * (held / rules.most_chunks);
  return align_up(std::min(even, share), rules.granularity);
}

std::size_t chunk_share(const block_index& index, const chunk_rules& rules) noexcept {
  if (rules.equal_chunk != 0) return rules.equal_chunk;
  const std::size_t held = index.physical_bytes();
  const std::size_t share =
      std::clamp(std::bit_floor(held / chunks_per_doubling), smallest_share, largest_share);
  return std::max({rules.granularity, least_for_count(held, rules),
                   std::min(share, std::bit_floor(rules.largest_chunk))});
}

/// New chunks give `missing` of `wanted` bytes.
std::size_t new_chunk_bytes(const block_index& index, std::size_t missing, std::size_t wanted,
                            const chunk_rules& rules) {
  if (!rules.moves_chunks || missing == 0) return missing;
  const std::size_t share = chunk_share(index, rules);
  if (rules.equal_chunk != 0) return share;
  const std::size_t cut = std::clamp(wanted / chunks_per_growth, least_cut, largest_cut);
  return std::max({share, align_down(std::min(cut, rules.largest_chunk), rules.granularity),
                   least_for_count(index.physical_bytes() + missing, rules)});
}

std::size_t growth_unit(const block_index& index, std::size_t missing, std::size_t requested,
                        const chunk_rules& rules) {
  const std::size_t share = chunk_share(index, rules);
  if (rules.equal_chunk != 0) return share;
  if (!rules.moves_chunks) return std::max(least_cut, share);  // a slab never joins with others
  const std::size_t held = index.physical_bytes() + missing;
  const std::size_t free = held - std::min(held, index.used_bytes() + requested);
  const std::size_t spare = held / largest_free_part - std::min(held / largest_free_part, free);
  const std::size_t least =
      std::max({std::bit_floor(share / growths_per_chunk), smallest_share, rules.granularity,
                least_for_count(index.physical_bytes(), rules)});
  return std::clamp(std::bit_floor(spare), std::min(least, share), share);
}

class scanner {
 public:
  scanner(const block_index& index, const request& wanted, const block_filter& filter,
          const chunk_rules& rules, placement_scan found = {})
      : index_{index}, request_{wanted}, filter_{filter}, rules_{rules}, found_{std::move(found)} {}

  placement_scan run() {
    const auto is_usable = [this](const block& one) { return filter_.is_usable(one); };
    const auto may_move = [this](const block& one) { return filter_.may_move(one); };
    // A smaller single block holds neither the request nor a chunk.
    const std::size_t least =
        rules_.moves_chunks ? std::min(request_.bytes, rules_.granularity) : request_.bytes;
    index_.for_each_stretch(least, [&](block& first, const block& last) {
      for_each_run(first, last, is_usable, [&](block& begin, std::size_t end) {
        scan_run(begin, end);
        if (!rules_.moves_chunks || end - begin.offset < rules_.granularity) return;
        const block* behind = &begin;
        while (behind->end() < end) behind = behind->next;
        for_each_run(begin, *behind, may_move, [&](block& from, std::size_t to) {
          add_idle_chunks(index_, from, to, found_.sources);
        });
      });
    });
    return run_gaps();
  }

  placement_scan run_gaps() {
    std::ranges::sort(found_.sources, {}, &idle_chunk::offset);
    for (block_tree* const tree : {&index_.unmapped(), &index_.leaving()}) {
      for (block& each : *tree) {
        if (!is_gap(each) || (each.previous != nullptr && is_gap(*each.previous))) continue;
        const gap here = gap_from(each);
        scan_gap(here, run_before(each));
        if (rules_.moves_chunks) scan_end_of_gap(here);
      }
    }
    return std::move(found_);
  }

 private:
  /// Adjacent addresses that are unmapped, or old and can be unmapped.
  struct gap {
    block* first;
    block* last;
    bool unmaps;

    [[nodiscard]] std::size_t offset() const noexcept { return first->offset; }
    [[nodiscard]] std::size_t end() const noexcept { return last->end(); }
  };
  [[nodiscard]] bool is_gap(const block& one) const {
    return one.state == block_state::unmapped || filter_.may_unmap(one);
  }
  [[nodiscard]] gap gap_from(block& first) const {
    gap found{&first, &first, first.state != block_state::unmapped};
    while (found.last->next != nullptr && is_gap(*found.last->next)) {
      found.last = found.last->next;
      found.unmaps = found.unmaps || found.last->state != block_state::unmapped;
    }
    return found;
  }

  [[nodiscard]] std::size_t unit() const noexcept {
    return std::max(rules_.granularity, rules_.equal_chunk);
  }
  [[nodiscard]] std::size_t aligned(std::size_t offset) const noexcept {
    return index_.aligned(offset, request_.alignment);
  }

  [[nodiscard]] block* run_before(const block& one) const {
    block* run = nullptr;
    for (block* at = one.previous; at != nullptr && filter_.is_usable(*at); at = at->previous)
      run = at;
    return run;
  }

  void scan_run(block& run, std::size_t end) {
    const std::size_t at = aligned(run.offset);
    if (at + request_.bytes > end) return;
    candidate& best = found_.free_run;
    if (best.first != nullptr &&
        std::pair{best.run_bytes, best.first->offset} < std::pair{end - run.offset, run.offset})
      return;
    best.first = &run;
    best.at = at;
    best.run_bytes = end - run.offset;
  }

  [[nodiscard]] static candidate candidate_in(const gap& range, std::size_t at) {
    return {.first = range.first, .at = at, .unmapped = range.first, .unmaps = range.unmaps};
  }

  void scan_gap(const gap& range, block* run) {
    const std::size_t unit = rules_.granularity;
    if (!rules_.moves_chunks) return scan_inside_gap(range, unit);
    candidate here = candidate_in(range, aligned(range.offset()));
    if (run != nullptr && aligned(run->offset) < range.offset()) {
      here.first = run;
      here.at = aligned(run->offset);
    }
    here.map_at = std::max(range.offset(), align_down(here.at, unit));
    const std::size_t end = here.at + request_.bytes;
    if (here.map_at >= range.end() || end <= range.offset()) return;
    here.map_room = range.end() - here.map_at;
    if (end <= range.end()) {
      here.map_bytes = align_up(end - here.map_at, unit);
    } else {
      std::size_t reached = range.end();
      for (const block* next = range.last->next; reached < end; next = next->next) {
        if (next == nullptr || !filter_.is_usable(*next)) return;
        reached = next->end();
      }
      here.map_bytes = here.map_room;
    }
    note_candidate(here);
  }

  /// For a request that ends with the usable run behind the gap.
  void scan_end_of_gap(const gap& range) {
    std::size_t end = range.end();
    for (const block* next = range.last->next; next != nullptr && filter_.is_usable(*next);
         next = next->next)
      end = next->end();
    if (end == range.end() || end - range.offset() < request_.bytes) return;
    candidate here = candidate_in(range, aligned(end - request_.bytes));
    if (here.at + request_.bytes > end) here.at -= request_.alignment;
    if (here.at >= range.end()) return;
    here.map_bytes = align_up(range.end() - here.at, unit());
    if (here.map_bytes > range.end() - range.offset()) return;
    here.map_at = range.end() - here.map_bytes;
    here.map_room = here.map_bytes;
    here.kept = kept_in(here);
    note_creation(here);
  }

  /// For chunks that are apart: leaves `margin` bytes on both sides.
  void scan_inside_gap(const gap& range, std::size_t margin) {
    candidate here = candidate_in(range, aligned(range.offset() + margin));
    here.map_at = align_down(here.at, rules_.granularity);
    here.map_bytes = align_up(here.at + request_.bytes - here.map_at, rules_.granularity);
    if (here.map_at + here.map_bytes + margin > range.end()) return;
    here.map_room = range.end() - margin - here.map_at;
    note_candidate(here);
  }

  [[nodiscard]] std::size_t kept_in(const candidate& here) const {
    const std::size_t end = here.at + request_.bytes;
    std::size_t sum = 0;
    for (auto each = std::partition_point(
             found_.sources.begin(), found_.sources.end(),
             [&](const idle_chunk& one) { return one.offset + one.bytes <= here.at; });
         each != found_.sources.end() && each->offset < end; ++each)
      sum += each->bytes;
    return sum;
  }

  /// Prefers the lower `cost`, then the lower address.
  template <typename Cost>
  static void note(candidate& best, const candidate& here, Cost cost) {
    if (best.first == nullptr ||
        std::pair{cost(here), here.unmapped->offset} < std::pair{cost(best), best.unmapped->offset})
      best = here;
  }
  void note_creation(const candidate& here) {
    note(found_.smallest_creation, here,
         [](const candidate& one) { return one.map_bytes + one.kept; });
  }
  void note_candidate(candidate here) {
    here.kept = kept_in(here);
    note_creation(here);
    note(found_.smallest_need, here, [](const candidate& one) { return one.map_bytes; });
    const std::size_t all = index_.address_bytes();
    note(found_.largest_gap, here, [all](const candidate& one) { return all - one.map_room; });
  }

  const block_index& index_;
  const request& request_;
  const block_filter& filter_;
  const chunk_rules& rules_;
  placement_scan found_;
};

/// In the order of their creation.
std::vector<idle_chunk> sources_for(const candidate& target, const request& wanted,
                                    const placement_scan& found, std::size_t least) {
  const std::size_t end = target.at + wanted.bytes;
  std::vector<idle_chunk> sources = found.sources;
  std::erase_if(sources, [&](const idle_chunk& one) {
    return one.bytes < least || (one.offset < end && target.at < one.offset + one.bytes);
  });
  // From the smallest runs first: large ones may serve large requests as they are.
  std::ranges::sort(sources, {}, [](const idle_chunk& one) {
    return std::pair{one.run_bytes, one.offset};
  });
  std::size_t sum = 0;
  std::erase_if(sources, [&](const idle_chunk& one) {
    if (sum >= target.map_bytes || one.bytes > target.map_room - sum) return true;
    sum += one.bytes;
    return false;
  });
  std::ranges::sort(sources, {}, &idle_chunk::order);
  return sources;
}

std::optional<growth_plan> plan_at(const candidate& target, const block_index& index,
                                   const request& wanted, const placement_scan& found,
                                   const chunk_rules& rules, std::size_t least_moved) {
  if (target.first == nullptr) return std::nullopt;
  growth_plan plan{target, sources_for(target, wanted, found, least_moved)};
  for (const idle_chunk& each : plan.sources) plan.moved += each.bytes;
  const std::size_t moved = plan.moved;
  const std::size_t missing = target.map_bytes - std::min(moved, target.map_bytes);
  const std::size_t held = index.physical_bytes() + rules.planned;
  const std::size_t allowed =
      std::min(rules.limit - std::min(rules.limit, held), target.map_room - moved);
  if (missing > allowed) return std::nullopt;
  const std::size_t rounded =
      rules.least_slab != 0 ? align_up(std::max(missing, rules.least_slab), rules.granularity)
                            : align_up(missing, growth_unit(index, missing, wanted.bytes, rules));
  if (rules.equal_chunk != 0) {
    if (rounded > allowed) return std::nullopt;
    plan.least = plan.wanted = moved + rounded;
  } else {
    plan.least = moved + missing;
    // If the number of chunks is limited, the last one takes the rest. A slab takes up to
    // `least_cut`, for small requests to share.
    const std::size_t rest = align_down(allowed, rules.granularity);
    std::size_t most = missing;
    if (rules.most_chunks != 0)
      most = rest;
    else if (!rules.moves_chunks && rules.least_slab == 0)
      most = std::max(missing, std::min(rest, least_cut));
    plan.wanted = moved + (rounded <= allowed ? rounded : most);
  }
  plan.chunk = new_chunk_bytes(index, plan.wanted - moved, plan.wanted, rules);
  return plan;
}

}  // namespace

placement_scan scan_placements(const block_index& index, const request& wanted,
                               const block_filter& filter, const chunk_rules& rules) {
  return scanner{index, wanted, filter, rules}.run();
}

void scan_gaps(const block_index& index, const request& wanted, const block_filter& filter,
               const chunk_rules& rules, placement_scan& found) {
  found = scanner{index, wanted, filter, rules, std::move(found)}.run_gaps();
}

std::size_t equal_chunk_bytes(std::size_t available, const chunk_rules& rules) noexcept {
  std::size_t share = std::min(std::bit_floor(rules.limit / equal_chunks), largest_equal_chunk);
  // A divisor of a small limit, so that all of it can be used.
  if (share < smallest_share) share = std::min(rules.limit & (~rules.limit + 1), smallest_share);
  const std::size_t fitting = std::max(std::bit_floor(available / chunks_per_doubling),
                                       std::min(std::bit_floor(available), smallest_share));
  const std::size_t least =
      rules.most_chunks == 0 ? 0 : align_up(rules.limit / rules.most_chunks + 1, rules.granularity);
  return std::max(
      {rules.granularity, least, std::min({share, fitting, std::bit_floor(rules.largest_chunk)})});
}

std::optional<growth_plan> plan_growth(const block_index& index, const request& wanted,
                                       const placement_scan& found, const chunk_rules& rules) {
  // A move takes more calls than a new chunk, so small chunks move only as a last choice.
  const std::size_t new_chunk = chunk_share(index, rules);
  for (const std::size_t least : {new_chunk, std::size_t{0}}) {
    if (least != 0 && rules.moves_small_chunks) continue;
    for (const candidate* const target :
         {&found.smallest_need, &found.largest_gap, &found.smallest_creation})
      if (auto plan =
              plan_at(*target, index, wanted, found, rules, std::min(least, target->map_bytes)))
        return plan;
  }
  return std::nullopt;
}

void add_idle_chunks(const block_index& index, block& first, std::size_t end,
                     std::vector<idle_chunk>& found) {
  block* around = &first;
  const auto& chunks = index.chunks();
  for (auto at = chunks.lower_bound(first.offset);
       at != chunks.end() && at->first + at->second.bytes <= end; ++at) {
    while (around->end() <= at->first) around = around->next;
    found.push_back({at->first, at->second.bytes, at->second.order, end - first.offset, around});
  }
}

}  // namespace hipvmm::mr::pool
