// SPDX-License-Identifier: MIT
// How the slow path backs a place for a request, with chunks that move there and with new ones.
#include <algorithm>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/logger.hpp"
#include "core/observers/profiler_range.hpp"
#include "mr/pool/allocator/slow_path.hpp"
#include "mr/pool/allocator/thread_caches.hpp"

namespace hipvmm::mr::pool {

/// Backing for one request: what is claimed for it, and how far the work has come.
struct slow_path::growth {
  /// A chunk to be moved, and the blocks that it lies in.
  struct source {
    idle_chunk chunk;
    blocks around = {};
    enum { waits, set_aside, moved } stage = waits;
    block_index::chunk_map::node_type node = {};  // while set aside
  };
  growth_plan plan;
  blocks around;         // of the place: what was free before
  block* gap = nullptr;  // of the place: what gets backing
  std::vector<source> sources;
  std::size_t mapped = 0;   // bytes of the gap backed so far
  std::size_t created = 0;  // bytes
  std::size_t planned = 0;  // bytes to be created, which others must not plan with
  // When the old addresses of moved chunks end: with this epoch of the user, or at once.
  std::uint64_t in_use_until = 0;
};

bool slow_path::begin(growth& work) {
  for (;;) {
    {
      const state_lock lock{all_.state_mutex};
      all_.require_awake();
      const placement_scan found = scan_placements(all_.index, request_, *this, rules());
      auto plan = plan_growth(all_.index, request_, found, rules());
      missed_a_run_ = found.free_run.first != nullptr;
      if (!plan) return false;
      work.plan = std::move(*plan);
      if (!work.plan.target.unmaps) claim_all(work);
    }
    if (work.plan.target.unmaps) {
      may_unmap_ = maintenance_.unmap_old_addresses();
      work = {};
      continue;
    }
    if (make_user_wait(work.around) && may_move_sources(work)) return true;
    undo(work);
    work = {};
  }
}

void slow_path::claim_all(growth& work) {
  std::size_t moved = 0;
  for (const idle_chunk& each : work.plan.sources) {
    work.sources.push_back({each});
    moved += each.bytes;
  }
  all_.index.prepare_for(6 + 2 * work.sources.size());
  const place& target = work.plan.target;
  block& gap = *target.unmapped;
  block* const behind = gap.next;
  const std::size_t end = target.at + request_.bytes;
  const std::size_t gap_end = gap.end();
  if (target.first != &gap) all_.index.claim(*target.first, target.at, gap.offset, work.around);
  if (end > gap_end) all_.index.claim(*behind, gap_end, end, work.around);
  work.gap = &all_.index.take_unmapped(gap, target.map_at, work.plan.wanted);
  for (auto& each : work.sources)
    all_.index.claim(*each.chunk.first, each.chunk.offset, each.chunk.offset + each.chunk.bytes,
                     each.around);
  work.planned = work.plan.wanted - moved;
  all_.planned_bytes += work.planned;
}

void slow_path::end_plan(growth& work, std::size_t bytes) noexcept {
  bytes = std::min(bytes, work.planned);
  work.planned -= bytes;
  all_.planned_bytes -= bytes;
}

bool slow_path::may_move_sources(growth& work) {
  // What work in flight may still use, before anything of the user's stream does, keeps its old
  // address until that work has passed. Where it cannot, the caller waits, for that costs less than
  // the memory that would be created instead. Nor can it for a per-thread stream: other threads
  // could not tell how far that has come.
  const bool may_stay = all_.memory.has_aliases() && user_.is_stream() && user_.thread() == 0;
  for (const auto& source : work.sources) {
    if (!(may_stay ? make_user_wait(source.around) : wait_for(source.around))) return false;
  }
  std::uint64_t now = 0;
  {
    const state_lock lock{all_.state_mutex};
    const bool passed =
        std::all_of(work.sources.begin(), work.sources.end(), [](const growth::source& source) {
          return std::all_of(source.around.begin(), source.around.end(), [](const block* each) {
            return owner_of(*each).has_passed(each->epoch);
          });
        });
    if (passed) return true;
    now = user_.epoch();
  }
  // The user's stream is ordered behind all of them now, and nothing else of it is waited for.
  const auto known = all_.streams.fence_for(user_, now, &user_);
  if (known)
    work.in_use_until = known->epoch;
  else
    without_fence_.push_back(&user_);
  return known.has_value();
}

void slow_path::move_by_alias(growth& work) {
  stream_state& last_user = work.in_use_until == 0 ? all_.streams.idle() : user_;
  for (auto& source : work.sources) {
    // Unmapped in the background: an unmap is dear, and on some releases waits for all streams.
    std::list<allocator_state::old_address> old;
    old.push_back({source.around.front(), source.chunk.order, &last_user, work.in_use_until});
    const std::size_t to = work.gap->offset + work.mapped;
    all_.memory.alias(source.chunk.offset, to, source.chunk.bytes);
    source.stage = growth::source::moved;
    {
      const state_lock lock{all_.state_mutex};
      block& left = *source.around.front();
      all_.index.merge(left, source.chunk.offset + source.chunk.bytes);
      all_.index.make_leaving(left, last_user, work.in_use_until);
      all_.index.put_chunk(all_.index.take_chunk(source.chunk.offset), to);
      ++all_.chunks_moved;
    }
    work.mapped += source.chunk.bytes;
    all_.old_addresses.splice(all_.old_addresses.end(), old);
    all_.note_left_mapped();
  }
}

void slow_path::move_by_remap(growth& work) {
  for (auto& source : work.sources) {
    all_.memory.set_aside(source.chunk.offset, source.chunk.bytes);
    source.stage = growth::source::set_aside;
    const state_lock lock{all_.state_mutex};
    source.node = all_.index.take_chunk(source.chunk.offset);
    all_.index.merge(*source.around.front(), source.chunk.offset + source.chunk.bytes);
    all_.index.make_unmapped(*source.around.front());
  }
  for (auto& source : work.sources) {
    const std::size_t to = work.gap->offset + work.mapped;
    all_.memory.create(to, source.chunk.bytes);
    source.stage = growth::source::moved;
    const state_lock lock{all_.state_mutex};
    all_.index.put_chunk(std::move(source.node), to);
    ++all_.chunks_moved;
    work.mapped += source.chunk.bytes;
  }
}

void slow_path::create(growth& work, std::size_t bytes) {
  block_index::chunk_map made;
  made.emplace(0, block_index::chunk{bytes, 0});
  all_.memory.create(work.gap->offset + work.mapped, bytes);
  all_.report_event(memory_event_kind::grow, work.gap->offset + work.mapped, bytes);
  const state_lock lock{all_.state_mutex};
  all_.index.add_chunk(made.extract(made.begin()), work.gap->offset + work.mapped);
  end_plan(work, bytes);
  ++all_.chunks_created;
  work.mapped += bytes;
  work.created += bytes;
}

bool slow_path::leave_refused(block& left) noexcept {
  bool is_refused = false;
  // Without memory for this the place is free, and the backend unmaps before it maps there.
  detail::report_exceptions([&] {
    std::list<allocator_state::unmapping> one;
    one.push_back({nullptr, &left, 0});
    block_index::chunk_map made;
    made.emplace(0, block_index::chunk{0, 0});
    auto [what, bytes] = all_.memory.detach_refused(left.offset, left.bytes);
    if (what == nullptr) return;
    is_refused = true;
    one.back().what = std::move(what);
    one.back().chunk_bytes = bytes;
    if (bytes != 0) {
      made.begin()->second.bytes = bytes;
      all_.index.add_chunk(made.extract(made.begin()), left.offset);
    }
    all_.refused.splice(all_.refused.end(), one);
    all_.note_left_mapped();
  });
  return is_refused;
}

void slow_path::undo(growth& work) noexcept {
  all_.memory.release_set_aside();
  const state_lock lock{all_.state_mutex};
  end_plan(work, work.planned);
  all_.index.unclaim(work.around);
  for (const auto& each : work.sources) {
    if (each.stage == growth::source::waits) all_.index.unclaim(each.around);
  }
  if (work.gap == nullptr) return;
  block* left = work.gap;
  if (work.mapped != 0) {
    left = work.mapped < left->bytes ? &all_.index.cut(*left, work.mapped) : nullptr;
    free_gain(*work.gap);
  }
  if (left != nullptr && !leave_refused(*left)) all_.index.make_unmapped(*left);
}

void slow_path::free_gain(block& gained) noexcept {
  // A thread's default stream gets only what has passed, for other threads could not make a fence
  // in it.
  stream_state& owner = user_.thread() == 0 ? user_ : all_.streams.idle();
  gained.owner = &owner;
  // New, or behind a fence of those who used it.
  gained.epoch = owner.note_free(true);
  all_.index.make_free(gained);
}

std::size_t slow_path::finish(growth& work) noexcept {
  const state_lock lock{all_.state_mutex};
  end_plan(work, work.planned);
  ++all_.growths_in_a_row;
  block_index& index = all_.index;
  if (work.mapped < work.gap->bytes) index.make_unmapped(index.cut(*work.gap, work.mapped));
  // What is backed before or behind the request stays free.
  const place& target = work.plan.target;
  const std::size_t end = target.at + request_.bytes;
  if (work.gap->end() > end) free_gain(index.cut(*work.gap, end - work.gap->offset));
  block* first = target.first == target.unmapped ? work.gap : work.around.front();
  if (target.at > first->offset) {
    block& rest = *first;
    first = &index.cut(rest, target.at - rest.offset);
    free_gain(rest);
  }
  return assign_to_user(*first, end,
                        work.created == 0 ? pool_source::moved_chunks : pool_source::new_chunks);
}

std::optional<std::size_t> slow_path::grow() {
  const detail::profiler_range range{"hipvmm pool: growth"};
  growth work;
  try {
    if (!begin(work)) return std::nullopt;
    require_awake();
    all_.memory.has_aliases() ? move_by_alias(work) : move_by_remap(work);
    while (work.mapped < work.plan.wanted) {
      std::size_t bytes = 0;
      {
        const state_lock lock{all_.state_mutex};
        bytes = next_chunk_bytes(all_.index, work.plan.wanted - work.mapped, work.plan.wanted,
                                 !work.sources.empty(), rules());
      }
      try {
        create(work, bytes);
      } catch (const out_of_memory&) {
        // Without what is beyond need the device may still have enough.
        if (work.mapped >= work.plan.least) break;
        if (work.mapped + bytes <= work.plan.least) throw;
        create(work, work.plan.least - work.mapped);
        break;
      }
    }
  } catch (...) {
    undo(work);
    throw;
  }
  detail::log<log_level::debug>([&] {
    return name_of(all_) + " took " + format_bytes(work.created) + " from the device and moved " +
           std::to_string(work.sources.size()) + " chunks for a request of " +
           format_bytes(request_.bytes);
  });
  return finish(work);
}

}  // namespace hipvmm::mr::pool
