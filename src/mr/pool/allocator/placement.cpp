// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/placement.hpp"

#include <algorithm>
#include <utility>

#include <hipvmm/core/bytes.hpp>

namespace hipvmm::mr::pool {
namespace {

// A chunk is what moves as a whole and what HIP's calls are paid for. Small ones are denser, large
// ones faster: docs/design/pool_figures.md has both figures of several choices.
constexpr std::size_t granules_per_chunk = 4;
/// As many growths with nothing freed between them tell a program that only allocates.
constexpr unsigned growths_before_larger = 4;

/// Least bytes of a chunk for which there are never more than the rules allow. While a pool is
/// small a chunk is a share of what is held, so that their number is a logarithm of it; later half
/// as many as allowed make up the limit.
std::size_t least_for_count(const block_index& index, const chunk_rules& rules) noexcept {
  if (rules.most_chunks == 0) return 0;
  if (rules.has_equal_chunks)
    return align_up(rules.limit / rules.most_chunks + 1, rules.granularity);
  const std::size_t even = 2 * (rules.limit / rules.most_chunks);
  const std::size_t share = 16 * (index.physical_bytes() / rules.most_chunks);
  return align_up(std::min(even, share), rules.granularity);
}

/// What backing is counted in where chunks can move.
std::size_t granule(const block_index& index, const chunk_rules& rules) noexcept {
  // One size for the life of the pool. It divides a small limit, so that all of that is of use.
  if (rules.has_equal_chunks) {
    const std::size_t divisor = rules.limit & (~rules.limit + 1);
    const std::size_t most = rules.limit < 128 * MiB ? std::min(divisor, 2 * MiB) : 2 * MiB;
    return std::max({rules.granularity, least_for_count(index, rules), most});
  }
  // About a thousandth of what is held, so that the calls of a pool that grows do not add up, and
  // what is backed beyond need does not either.
  const std::size_t held = index.physical_bytes();
  const std::size_t chosen = held < 2 * GiB ? 2 * MiB : held < 8 * GiB ? 8 * MiB : 32 * MiB;
  return std::max({rules.granularity, least_for_count(index, rules), chosen});
}

/// What is backed at once is a multiple of this.
std::size_t growth_unit(const block_index& index, const chunk_rules& rules) noexcept {
  const std::size_t one = granule(index, rules);
  if (rules.has_equal_chunks) return one;
  // A program that only allocates gets ever more at once: a tenth of what is held at most.
  const unsigned doublings = std::min(rules.growths_in_a_row / growths_before_larger, 5U);
  const std::size_t share = align_down(index.physical_bytes() / 10, one);
  return std::max(one, std::min(one << doublings, share));
}

/// Of a chunk that never joins with others.
std::size_t slab_bytes(const block_index& index, std::size_t missing, const chunk_rules& rules) {
  if (rules.least_slab == 0) return align_up(missing, granules_per_chunk * granule(index, rules));
  return align_up(std::max(missing, rules.least_slab), rules.granularity);
}

class scanner {
 public:
  scanner(const block_index& index, const request& wanted, const block_filter& filter,
          const chunk_rules& rules)
      : index_{index}, request_{wanted}, filter_{filter}, rules_{rules} {}

  placement_scan run() {
    const auto is_usable = [this](const block& one) { return filter_.is_usable(one); };
    const auto may_move = [this](const block& one) { return filter_.may_move(one); };
    // A single block that is smaller holds neither the request nor a chunk that could move.
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
    for (block_tree* const tree : {&index_.unmapped(), &index_.leaving()}) {
      for (block& each : *tree) {
        if (!is_gap(each) || (each.previous != nullptr && is_gap(*each.previous))) continue;
        const gap here = gap_from(each);
        scan_gap(here, run_before(each));
      }
    }
    return std::move(found_);
  }

 private:
  /// Adjacent addresses with nothing behind them, or old ones that could be unmapped.
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

  [[nodiscard]] std::size_t aligned(std::size_t offset) const noexcept {
    return index_.aligned(offset, request_.alignment);
  }

  /// The run of usable blocks that ends where `one` begins; nullptr where there is none.
  [[nodiscard]] block* run_before(const block& one) const {
    block* run = nullptr;
    for (block* at = one.previous; at != nullptr && filter_.is_usable(*at); at = at->previous)
      run = at;
    return run;
  }

  void scan_run(block& run, std::size_t end) {
    const std::size_t at = aligned(run.offset);
    if (at + request_.bytes > end) return;
    place& best = found_.free_run;
    // The room of a run is compared in map_room, which runs have no other use for.
    if (best.first != nullptr &&
        std::pair{best.map_room, best.first->offset} < std::pair{end - run.offset, run.offset})
      return;
    best.first = &run;
    best.at = at;
    best.map_room = end - run.offset;
  }

  void scan_gap(const gap& range, block* run) {
    const std::size_t unit = rules_.granularity;
    if (!rules_.moves_chunks) return scan_inside_gap(range, unit);
    place here;
    here.unmapped = range.first;
    here.unmaps = range.unmaps;
    here.first = range.first;
    here.at = aligned(range.offset());
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
    note_place(here);
  }

  /// The same where chunks lie apart: with `margin` bytes left on both sides.
  void scan_inside_gap(const gap& range, std::size_t margin) {
    place here;
    here.unmapped = range.first;
    here.unmaps = range.unmaps;
    here.first = range.first;
    here.at = aligned(range.offset() + margin);
    here.map_at = align_down(here.at, rules_.granularity);
    here.map_bytes = align_up(here.at + request_.bytes - here.map_at, rules_.granularity);
    if (here.map_at + here.map_bytes + margin > range.end()) return;
    here.map_room = range.end() - margin - here.map_at;
    note_place(here);
  }

  void note_place(const place& here) {
    place& least = found_.least;
    place& widest = found_.widest;
    const std::size_t where = here.unmapped->offset;
    if (least.first == nullptr ||
        std::pair{here.map_bytes, where} < std::pair{least.map_bytes, least.unmapped->offset})
      least = here;
    if (widest.first == nullptr || here.map_room > widest.map_room ||
        (here.map_room == widest.map_room && where < widest.unmapped->offset))
      widest = here;
  }

  const block_index& index_;
  const request& request_;
  const block_filter& filter_;
  const chunk_rules& rules_;
  placement_scan found_;
};

/// The chunks to be moved to `target`, in the order of their creation.
std::vector<idle_chunk> sources_for(const place& target, const request& wanted,
                                    const placement_scan& found) {
  const std::size_t end = target.at + wanted.bytes;
  std::vector<idle_chunk> sources = found.sources;
  // What lies in the place itself is there already.
  std::erase_if(sources, [&](const idle_chunk& one) {
    return one.offset < end && target.at < one.offset + one.bytes;
  });
  // From the smallest runs first: large ones may serve large requests as they are.
  std::sort(sources.begin(), sources.end(), [](const idle_chunk& a, const idle_chunk& b) {
    return std::pair{a.run_bytes, a.offset} < std::pair{b.run_bytes, b.offset};
  });
  std::size_t sum = 0;
  std::erase_if(sources, [&](const idle_chunk& one) {
    if (sum >= target.map_bytes || one.bytes > target.map_room - sum) return true;
    sum += one.bytes;
    return false;
  });
  std::sort(sources.begin(), sources.end(),
            [](const idle_chunk& a, const idle_chunk& b) { return a.order < b.order; });
  return sources;
}

std::optional<growth_plan> plan_at(const place& target, const block_index& index,
                                   const request& wanted, const placement_scan& found,
                                   const chunk_rules& rules) {
  growth_plan plan{target, sources_for(target, wanted, found)};
  std::size_t moved = 0;
  for (const idle_chunk& each : plan.sources) moved += each.bytes;
  const std::size_t missing = target.map_bytes - std::min(moved, target.map_bytes);
  const std::size_t held = index.physical_bytes() + rules.planned;
  const std::size_t allowed =
      std::min(rules.limit - std::min(rules.limit, held), target.map_room - moved);
  if (missing > allowed) return std::nullopt;
  // What never joins with others should be large.
  const std::size_t rounded = rules.moves_chunks ? align_up(missing, growth_unit(index, rules))
                                                 : slab_bytes(index, missing, rules);
  if (rules.has_equal_chunks) {
    if (rounded > allowed) return std::nullopt;
    plan.least = plan.wanted = moved + rounded;
  } else {
    plan.least = moved + missing;
    // Where chunks are counted, the last one takes what the limit leaves.
    const std::size_t most =
        rules.most_chunks != 0 ? align_down(allowed, rules.granularity) : missing;
    plan.wanted = moved + (rounded <= allowed ? rounded : most);
  }
  return plan;
}

}  // namespace

placement_scan scan_placements(const block_index& index, const request& wanted,
                               const block_filter& filter, const chunk_rules& rules) {
  return scanner{index, wanted, filter, rules}.run();
}

void scan_gaps(const block_index& index, const request& wanted, const block_filter& filter,
               const chunk_rules& rules, placement_scan& found) {
  const placement_scan here = scanner{index, wanted, filter, rules}.run_gaps();
  found.least = here.least;
  found.widest = here.widest;
}

std::optional<growth_plan> plan_growth(const block_index& index, const request& wanted,
                                       const placement_scan& found, const chunk_rules& rules) {
  if (found.least.first == nullptr) return std::nullopt;
  auto plan = plan_at(found.least, index, wanted, found, rules);
  return plan ? plan : plan_at(found.widest, index, wanted, found, rules);
}

std::size_t next_chunk_bytes(const block_index& index, std::size_t missing, std::size_t wanted,
                             bool moves, const chunk_rules& rules) {
  if (!rules.moves_chunks) return missing;
  const std::size_t one = granule(index, rules);
  if (rules.has_equal_chunks) return std::min(missing, one);
  // The size in which a pool begins, while no memory lies idle that smaller ones could join. Large
  // chunks are for what a program keeps, and that is allocated with nothing freed in between.
  const bool only_allocates = rules.growths_in_a_row >= growths_before_larger;
  const std::size_t first = only_allocates ? 64 * MiB : 32 * MiB;
  constexpr std::size_t is_young = GiB;
  const std::size_t held = index.physical_bytes();
  const std::size_t least = !moves && held < is_young ? first : granules_per_chunk * one;
  // Of several sizes, of which one may fit a later place.
  const std::size_t share = std::max(missing / 8, wanted / 12);
  const std::size_t chosen = std::max(least, align_down(share, one));
  // Where chunks are counted, there would be too many smaller ones.
  const std::size_t allowed = std::max({align_down(rules.largest_chunk, rules.granularity),
                                        rules.granularity, least_for_count(index, rules)});
  return std::min({missing, chosen, allowed});
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
