// SPDX-License-Identifier: MIT
#include "mr/pool/placement.hpp"

#include <algorithm>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "mr/pool/slow_path.hpp"

namespace hipvmm::mr::pool {

bool slow_path::is_usable(const block& one) const noexcept {
  if (one.state != block_state::free) return false;
  if (one.owner == &user_ || one.owner->is_idle()) return true;
  if (all_.reuse_.follow_event_dependencies && user_.thread() == 0 &&
      user_.follows(*one.owner, one.epoch))
    return true;
  return all_.reuse_.allow_internal_dependencies &&
         (is_in_order(one) || (!is_captured(*one.owner) && !is_captured(user_)));
}

bool slow_path::is_in_order(const block& one) const noexcept {
  return one.owner == &user_ || one.owner->has_passed(one.epoch) ||
         user_.follows(*one.owner, one.epoch);
}

bool slow_path::is_captured(const stream_state& whose) const noexcept {
  return std::find(captured_.begin(), captured_.end(), &whose) != captured_.end();
}

placement_scan slow_path::scan_all() const {
  placement_scan found;
  block* run = nullptr;      // where the present stretch of usable blocks begins
  block* movable = nullptr;  // the same of those whose memory may go elsewhere
  for (block* at = &all_.space_.front();; at = at->next) {
    const bool ends = at == nullptr;
    const std::size_t here = ends ? all_.memory_.address_bytes() : at->offset;
    const bool joins_run = !ends && is_usable(*at);
    const bool may_move =
        joins_run && all_.memory_.moves_chunks() &&
        (at->owner->has_passed(at->epoch) || (!is_captured(*at->owner) && !is_captured(user_)));
    if (run != nullptr && !joins_run) scan_run(*run, here, found);
    if (movable != nullptr && !may_move) add_sources(*movable, here, found);
    if (ends) return found;
    if (at->state == block_state::unmapped) scan_gap(*at, run, found);
    run = !joins_run ? nullptr : run != nullptr ? run : at;
    movable = !may_move ? nullptr : movable != nullptr ? movable : at;
  }
}

void slow_path::scan_run(block& run, std::size_t end, placement_scan& found) const {
  const std::size_t at = all_.aligned(run.offset, alignment_);
  if (at + bytes_ > end) return;
  place& best = found.free_run;
  // The room of a run is compared in map_room, which runs have no other use for.
  if (best.first != nullptr && best.map_room <= end - run.offset) return;
  best.first = &run;
  best.at = at;
  best.map_room = end - run.offset;
}

void slow_path::scan_gap(block& hole, block* run, placement_scan& found) const {
  const std::size_t unit = all_.memory_.granularity();
  if (!all_.memory_.moves_chunks()) return scan_inside_gap(hole, unit, found);
  place here;
  here.unmapped = &hole;
  here.first = &hole;
  here.at = all_.aligned(hole.offset, alignment_);
  if (run != nullptr && all_.aligned(run->offset, alignment_) < hole.offset) {
    here.first = run;
    here.at = all_.aligned(run->offset, alignment_);
  }
  here.map_at = std::max(hole.offset, align_down(here.at, unit));
  const std::size_t end = here.at + bytes_;
  if (here.map_at >= hole.end() || end <= hole.offset) return;
  here.map_room = hole.end() - here.map_at;
  if (end <= hole.end()) {
    here.map_bytes = align_up(end - here.map_at, unit);
  } else {
    std::size_t reached = hole.end();
    for (const block* next = hole.next; reached < end; next = next->next) {
      if (next == nullptr || !is_usable(*next)) return;
      reached = next->end();
    }
    here.map_bytes = here.map_room;
  }
  note_place(here, found);
}

void slow_path::scan_inside_gap(block& hole, std::size_t gap, placement_scan& found) const {
  place here;
  here.unmapped = &hole;
  here.first = &hole;
  here.at = all_.aligned(hole.offset + gap, alignment_);
  here.map_at = align_down(here.at, all_.memory_.granularity());
  here.map_bytes = align_up(here.at + bytes_ - here.map_at, all_.memory_.granularity());
  if (here.map_at + here.map_bytes + gap > hole.end()) return;
  here.map_room = hole.end() - gap - here.map_at;
  note_place(here, found);
}

void slow_path::note_place(const place& here, placement_scan& found) {
  if (found.least.first == nullptr || here.map_bytes < found.least.map_bytes) found.least = here;
  if (found.widest.first == nullptr || here.map_room > found.widest.map_room) found.widest = here;
}

void slow_path::add_sources(block& first, std::size_t end, placement_scan& found) const {
  block* around = &first;
  for (auto at = all_.chunks_.lower_bound(first.offset);
       at != all_.chunks_.end() && at->first + at->second.bytes <= end; ++at) {
    while (around->end() <= at->first) around = around->next;
    found.sources.push_back(
        {at->first, at->second.bytes, at->second.order, end - first.offset, around});
  }
}

std::vector<idle_chunk> slow_path::sources_for(const place& target,
                                               const placement_scan& found) const {
  const std::size_t end = target.at + bytes_;
  std::vector<idle_chunk> sources = found.sources;
  // What lies in the place itself is there already.
  std::erase_if(sources, [&](const idle_chunk& one) {
    return one.offset < end && target.at < one.offset + one.bytes;
  });
  // From the smallest stretches first: large ones may serve large requests as they are.
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

}  // namespace hipvmm::mr::pool
