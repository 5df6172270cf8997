// SPDX-License-Identifier: MIT
#include "mr/pool/survey.hpp"

#include <algorithm>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "mr/pool/errand.hpp"

namespace hipvmm::mr::pool {

bool errand::is_usable(const block& one) const noexcept {
  if (one.state != block_state::free) return false;
  if (one.owner == &user_ || one.owner->is_idle()) return true;
  if (all_.rules_.follow_event_dependencies && user_.thread() == 0 &&
      user_.follows(*one.owner, one.stamp))
    return true;
  return all_.rules_.internal_dependencies &&
         (is_in_order(one) || (!is_captured(*one.owner) && !is_captured(user_)));
}

bool errand::is_in_order(const block& one) const noexcept {
  return one.owner == &user_ || one.owner->has_passed(one.stamp) ||
         user_.follows(*one.owner, one.stamp);
}

bool errand::is_captured(const stream_ledger& whose) const noexcept {
  return std::find(captured_.begin(), captured_.end(), &whose) != captured_.end();
}

survey errand::look_around() const {
  survey found;
  block* run = nullptr;      // where the present stretch of usable blocks begins
  block* movable = nullptr;  // the same of those whose memory may go elsewhere
  for (block* at = &all_.space_.front();; at = at->next) {
    const bool ends = at == nullptr;
    const std::size_t here = ends ? all_.memory_.address_bytes() : at->offset;
    const bool joins_run = !ends && is_usable(*at);
    const bool may_move =
        joins_run && all_.memory_.moves_chunks() &&
        (at->owner->has_passed(at->stamp) || (!is_captured(*at->owner) && !is_captured(user_)));
    if (run != nullptr && !joins_run) look_at_run(*run, here, found);
    if (movable != nullptr && !may_move) add_sources(*movable, here, found);
    if (ends) return found;
    if (at->state == block_state::unmapped) look_at_hole(*at, run, found);
    run = !joins_run ? nullptr : run != nullptr ? run : at;
    movable = !may_move ? nullptr : movable != nullptr ? movable : at;
  }
}

void errand::look_at_run(block& run, std::size_t end, survey& found) const {
  const std::size_t at = all_.aligned(run.offset, alignment_);
  if (at + bytes_ > end) return;
  place& best = found.free_run;
  // The room of a run is compared in map_room, which runs have no other use for.
  if (best.first != nullptr && best.map_room <= end - run.offset) return;
  best.first = &run;
  best.at = at;
  best.map_room = end - run.offset;
}

void errand::look_at_hole(block& hole, block* run, survey& found) const {
  const std::size_t unit = all_.memory_.granularity();
  if (!all_.memory_.moves_chunks()) return look_inside_hole(hole, unit, found);
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

void errand::look_inside_hole(block& hole, std::size_t gap, survey& found) const {
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

void errand::note_place(const place& here, survey& found) {
  if (found.least.first == nullptr || here.map_bytes < found.least.map_bytes) found.least = here;
  if (found.widest.first == nullptr || here.map_room > found.widest.map_room) found.widest = here;
}

void errand::add_sources(block& first, std::size_t end, survey& found) const {
  block* around = &first;
  for (auto at = all_.chunks_.lower_bound(first.offset);
       at != all_.chunks_.end() && at->first + at->second.bytes <= end; ++at) {
    while (around->end() <= at->first) around = around->next;
    found.sources.push_back(
        {at->first, at->second.bytes, at->second.order, end - first.offset, around});
  }
}

std::vector<idle_chunk> errand::sources_for(const place& target, const survey& found) const {
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
