// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/log.hpp"
#include "mr/pool/slow_path.hpp"

namespace hipvmm::mr::pool {
namespace {

// A chunk is what moves as a whole and what HIP's calls are paid for. Small ones are denser, large
// ones faster: docs/pool_design.md has both figures of six choices.
constexpr std::size_t granules_per_chunk = 4;

}  // namespace

/// More backing for one request: what is claimed for it, and how far the work has come.
struct slow_path::growth {
  /// A chunk to be moved, and the blocks that it lies in.
  struct source {
    idle_chunk chunk;
    blocks around;
    enum { waits, lifted, stays_mapped, done } stage = waits;
    block_allocator::chunk_map::node_type node;  // while lifted
  };
  place target;
  blocks around;          // of the place: what was free before
  block* hole = nullptr;  // of the place: what gets backing
  std::vector<source> sources;
  std::size_t least = 0;   // bytes of the hole that the request needs
  std::size_t wanted = 0;  // bytes of the hole to be backed
  std::size_t mapped = 0;  // bytes of the hole backed so far
  std::size_t created = 0;
  std::uint64_t in_use_until = 0;  // epoch of the user: chunks that stay mapped, until then
};

std::size_t slow_path::granule() const noexcept {
  // One size for the life of the pool. It divides a small limit, so that all of that is of use.
  if (all_.memory_.has_equal_chunks()) {
    const std::size_t divisor = all_.limit_ & (~all_.limit_ + 1);
    const std::size_t most = all_.limit_ < 128 * MiB ? std::min(divisor, 2 * MiB) : 2 * MiB;
    return std::max(all_.memory_.granularity(), most);
  }
  // About a thousandth of what is held, so that the calls of a pool that grows do not add up, and
  // what is backed beyond need does not either.
  const std::size_t held = all_.counters_.physical_bytes;
  const std::size_t chosen = held < 2 * GiB ? 2 * MiB : held < 8 * GiB ? 8 * MiB : 32 * MiB;
  return std::max(all_.memory_.granularity(), chosen);
}

std::size_t slow_path::growth_unit() const noexcept {
  // A program that only allocates gets ever more at once: a sixteenth of what is held at most.
  if (all_.memory_.has_equal_chunks()) return granule();
  const unsigned doublings = std::min(all_.growths_in_a_row_ / 4, 4U);
  const std::size_t share = std::bit_floor(all_.counters_.physical_bytes / 16 + 1);
  return std::max(granule(), std::min(granule() << doublings, share));
}

std::size_t slow_path::largest_chunk(const growth& work) const noexcept {
  // The size in which a pool begins, and no memory lies idle that smaller ones could be joined
  // with.
  constexpr std::size_t first = 64 * MiB;
  constexpr std::size_t is_young = GiB;
  const std::size_t held = all_.counters_.physical_bytes;
  const std::size_t least =
      work.sources.empty() && held < is_young ? first : granules_per_chunk * granule();
  return std::max(least, align_down(std::min(work.wanted / 4, held / 16), granule()));
}

void slow_path::claim(block& first, std::size_t begin, std::size_t end, blocks& claimed) {
  block* at = &first;
  while (at->end() <= begin) at = at->next;
  std::size_t count = claimed.size();
  for (const block* each = at; each != nullptr && each->offset < end; each = each->next) ++count;
  claimed.reserve(count);
  all_.space_.prepare_for(2);
  while (at != nullptr && at->offset < end && at->state == block_state::free) {
    const std::size_t from = std::max(begin, at->offset);
    block& taken = all_.take(*at, from, std::min(end, at->end()) - from);
    claimed.push_back(&taken);
    at = taken.next;
  }
}

void slow_path::unclaim(const blocks& claimed) noexcept {
  for (block* const each : claimed) all_.make_free(*each);
}

std::size_t slow_path::make_used_by_user(block& first, std::size_t end,
                                         pool_source counted) noexcept {
  while (first.end() < end) all_.space_.join_next(first);
  all_.make_used(first, user_);
  ++all_.counters_.served[static_cast<std::size_t>(counted)];
  return first.offset;
}

std::size_t slow_path::slab_bytes_for(std::size_t missing) const {
  const std::size_t least = all_.memory_.least_slab();
  if (least == 0) return align_up(missing, granules_per_chunk * granule());
  return align_up(std::max(missing, least), all_.memory_.granularity());
}

bool slow_path::plan_for(const place& target, const placement_scan& found, growth& work) const {
  work.target = target;
  work.sources.clear();
  std::size_t moved = 0;
  for (const idle_chunk& each : sources_for(target, found)) {
    work.sources.emplace_back().chunk = each;
    moved += each.bytes;
  }
  const std::size_t missing = target.map_bytes - std::min(moved, target.map_bytes);
  const std::size_t held = all_.counters_.physical_bytes;
  const std::size_t allowed =
      std::min(all_.limit_ - std::min(all_.limit_, held), target.map_room - moved);
  if (missing > allowed) return false;
  // What never joins with others should be large.
  const std::size_t rounded =
      all_.memory_.moves_chunks() ? align_up(missing, growth_unit()) : slab_bytes_for(missing);
  if (all_.memory_.has_equal_chunks()) {
    work.least = work.wanted = moved + rounded;
    return rounded <= allowed;
  }
  work.least = moved + missing;
  work.wanted = moved + (rounded <= allowed ? rounded : missing);
  return true;
}

void slow_path::claim_all(growth& work) {
  all_.space_.prepare_for(6 + 2 * work.sources.size());
  const place& target = work.target;
  block& hole = *target.unmapped;
  block* const behind = hole.next;
  const std::size_t end = target.at + bytes_;
  const std::size_t hole_end = hole.end();
  if (target.first != &hole) claim(*target.first, target.at, hole.offset, work.around);
  if (end > hole_end) claim(*behind, hole_end, end, work.around);
  work.hole = &hole;
  if (target.map_at > hole.offset) work.hole = &all_.space_.cut(hole, target.map_at - hole.offset);
  if (work.wanted < work.hole->bytes) all_.space_.cut(*work.hole, work.wanted);
  work.hole->state = block_state::busy;
  for (auto& each : work.sources)
    claim(*each.chunk.first, each.chunk.offset, each.chunk.offset + each.chunk.bytes, each.around);
}

bool slow_path::may_move(growth& work) {
  // What nothing uses any more leaves its address. What work under way may still use, before
  // anything of the user's stream does, keeps it until that work has passed; where it cannot, the
  // caller waits, for that costs less than the memory that would be created instead. Nor can it
  // for a per-thread stream: other threads could not tell how far that has come.
  const bool may_stay = all_.memory_.has_aliases() && !user_.is_idle() && user_.thread() == 0;
  for (const auto& source : work.sources) {
    if (!(may_stay ? make_user_wait(source.around) : wait_for(source.around))) return false;
  }
  std::uint64_t now = 0;
  bool any = false;
  {
    const state_lock lock{all_.state_mutex_};
    now = user_.now();
    for (auto& source : work.sources) {
      if (std::all_of(source.around.begin(), source.around.end(),
                      [](const block* each) { return each->owner->has_passed(each->epoch); }))
        continue;
      source.stage = growth::source::stays_mapped;
      any = true;
    }
  }
  if (!any) return true;
  // The user's stream comes behind all of them now, and nothing else of it is to be waited for.
  const auto known = fence_for(user_, now);
  if (known) work.in_use_until = known->epoch;
  return known.has_value();
}

block_allocator::chunk_map::node_type slow_path::note_moved(growth& work,
                                                            std::size_t source) noexcept {
  const idle_chunk& chunk = work.sources[source].chunk;
  all_.counters_.physical_bytes -= chunk.bytes;
  block& left = *work.sources[source].around.front();
  while (left.end() < chunk.offset + chunk.bytes) all_.space_.join_next(left);
  return all_.chunks_.extract(chunk.offset);
}

void slow_path::note_mapped(growth& work, block_allocator::chunk_map::node_type chunk) noexcept {
  pool_counters& counters = all_.counters_;
  const std::size_t bytes = chunk.mapped().bytes;
  chunk.key() = work.hole->offset + work.mapped;
  all_.chunks_.insert(std::move(chunk));
  work.mapped += bytes;
  counters.physical_bytes += bytes;
  counters.physical_high = std::max(counters.physical_high, counters.physical_bytes);
}

void slow_path::create(growth& work, std::size_t bytes) {
  block_allocator::chunk_map made;
  made.emplace(0, block_allocator::chunk{bytes, 0});
  all_.memory_.create(work.hole->offset + work.mapped, bytes);
  const state_lock lock{all_.state_mutex_};
  made.begin()->second.order = all_.next_chunk_++;
  note_mapped(work, made.extract(made.begin()));
  work.created += bytes;
  ++all_.counters_.chunks_created;
}

void slow_path::undo(growth& work) noexcept {
  all_.memory_.release_detached();
  const state_lock lock{all_.state_mutex_};
  unclaim(work.around);
  for (const auto& each : work.sources) {
    if (each.stage == growth::source::waits || each.stage == growth::source::stays_mapped)
      unclaim(each.around);
  }
  if (work.hole == nullptr) return;
  block* left = work.hole;
  if (work.mapped != 0) {
    left = work.mapped < left->bytes ? &all_.space_.cut(*left, work.mapped) : nullptr;
    work.hole->owner = &user_;
    work.hole->epoch = epoch_of_gain();
    all_.make_free(*work.hole);
  }
  if (left != nullptr) all_.make_unmapped(*left);
}

bool slow_path::begin(growth& work) {
  for (;;) {
    {
      const state_lock lock{all_.state_mutex_};
      const placement_scan found = scan_all();
      if (found.least.first == nullptr) return false;
      if (!plan_for(found.least, found, work) && !plan_for(found.widest, found, work)) return false;
      claim_all(work);
    }
    if (make_user_wait(work.around) && may_move(work)) return true;
    undo(work);
    work = {};
  }
}

std::optional<std::size_t> slow_path::grow() {
  memory_backend& memory = all_.memory_;
  growth work;
  try {
    if (!begin(work)) return std::nullopt;
    for (std::size_t i = 0; i < work.sources.size(); ++i) {
      auto& source = work.sources[i];
      if (source.stage == growth::source::stays_mapped) continue;
      lift(source.chunk);
      source.stage = growth::source::lifted;
      const state_lock lock{all_.state_mutex_};
      source.node = note_moved(work, i);
      all_.make_unmapped(*source.around.front());
    }
    for (std::size_t i = 0; i < work.sources.size(); ++i) {
      auto& source = work.sources[i];
      const std::size_t to = work.hole->offset + work.mapped;
      if (source.stage == growth::source::lifted) {
        memory.create(to, source.chunk.bytes);
        const state_lock lock{all_.state_mutex_};
        note_mapped(work, std::move(source.node));
        ++all_.counters_.chunks_moved;
        continue;
      }
      std::list<block_allocator::old_address> old(1);
      memory.alias(source.chunk.offset, to, source.chunk.bytes);
      source.stage = growth::source::done;
      const state_lock lock{all_.state_mutex_};
      note_mapped(work, note_moved(work, i));
      ++all_.counters_.chunks_moved;
      old.front() = {source.around.front(), source.chunk.order, &user_, work.in_use_until};
      all_.aliases_.splice(all_.aliases_.end(), old);
    }
    while (work.mapped < work.wanted) {
      const std::size_t most = memory.has_equal_chunks() ? granule()
                               : memory.moves_chunks()   ? largest_chunk(work)
                                                         : work.wanted;
      const std::size_t bytes = std::min(work.wanted - work.mapped, most);
      try {
        create(work, bytes);
      } catch (const out_of_memory&) {
        // Without what is beyond need the device may still have enough.
        if (work.mapped >= work.least) break;
        if (work.mapped + bytes <= work.least) throw;
        create(work, work.least - work.mapped);
      }
    }
  } catch (...) {
    undo(work);
    throw;
  }

  detail::log<log_level::debug>([&] {
    return all_.name() + " took " + format_bytes(work.created) + " from the device and moved " +
           std::to_string(work.sources.size()) + " chunks for a request of " + format_bytes(bytes_);
  });
  const state_lock lock{all_.state_mutex_};
  ++all_.growths_in_a_row_;
  if (work.mapped < work.hole->bytes) all_.make_unmapped(all_.space_.cut(*work.hole, work.mapped));
  // What is backed before or behind the request stays free, the user's.
  const auto leave_free = [this](block& rest) {
    rest.owner = &user_;
    rest.epoch = epoch_of_gain();
    all_.make_free(rest);
  };
  const std::size_t end = work.target.at + bytes_;
  if (work.hole->end() > end) leave_free(all_.space_.cut(*work.hole, end - work.hole->offset));
  block* first = work.target.first == work.target.unmapped ? work.hole : work.around.front();
  if (work.target.at > first->offset) {
    block& rest = *first;
    first = &all_.space_.cut(rest, work.target.at - rest.offset);
    leave_free(rest);
  }
  return make_used_by_user(*first, end,
                           work.created == 0 ? pool_source::moved_chunks : pool_source::new_chunks);
}

}  // namespace hipvmm::mr::pool
