// SPDX-License-Identifier: MIT
// Backing for a request, by chunks that move there and by new ones.
#include <algorithm>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/logger.hpp"
#include "core/observers/profiler_range.hpp"
#include "mr/pool/allocator/slow_path.hpp"

namespace hipvmm::mr::pool {

struct slow_path::growth {
  struct source {
    idle_chunk chunk;
    blocks around = {};  // that contain the chunk
    enum { waits, set_aside, moved } stage = waits;
    block_index::chunk_map::node_type node = {};  // while set aside
  };
  growth_plan plan;
  blocks around;
  block* gap = nullptr;  // of the place: gets backing
  std::vector<source> sources;
  std::size_t mapped = 0;   // bytes of the gap
  std::size_t created = 0;  // bytes
  std::size_t planned = 0;  // bytes still to be created
  // The user's epoch that ends the use of the sources' old addresses; 0: nothing uses them.
  std::uint64_t in_use_until = 0;
};

bool slow_path::begin(growth& work) {
  for (;;) {
    {
      const state_lock lock{blocks_.mutex};
      blocks_.require_awake();
      chunk_rules rules = blocks_.rules();
      rules.moves_small_chunks = is_memory_short_;
      const placement_scan found = scan_placements(blocks_.index, request_, *this, rules);
      auto plan = blocks_.plan(request_, found, rules);
      pass_.missed_a_run = found.free_run.first != nullptr;
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
  for (const idle_chunk& each : work.plan.sources) work.sources.push_back({each});
  blocks_.index.prepare_for(6 + 2 * work.sources.size());
  const candidate& target = work.plan.target;
  block& gap = *target.unmapped;
  block* const behind = gap.next;
  const std::size_t end = target.at + request_.bytes;
  const std::size_t gap_end = gap.end();
  if (target.first != &gap) blocks_.index.claim(*target.first, target.at, gap.offset, work.around);
  if (end > gap_end) blocks_.index.claim(*behind, gap_end, end, work.around);
  work.gap = &blocks_.index.take_unmapped(gap, target.map_at, work.plan.wanted);
  blocks_.index.begin_growth();
  for (auto& each : work.sources)
    blocks_.index.claim(*each.chunk.first, each.chunk.offset, each.chunk.offset + each.chunk.bytes,
                        each.around);
  work.planned = work.plan.wanted - work.plan.moved;
  blocks_.planned_bytes += work.planned;
}

void slow_path::end_plan(growth& work, std::size_t bytes) noexcept {
  bytes = std::min(bytes, work.planned);
  work.planned -= bytes;
  blocks_.planned_bytes -= bytes;
}

bool slow_path::may_move_sources(growth& work) {
  // Memory in use keeps its old address until the work has passed. Without aliases, or for a
  // thread's stream, which others cannot query, the caller waits: new memory would cost more.
  const bool may_stay =
      backing_.memory.traits.has_aliases && user_.is_stream() && user_.thread() == 0;
  for (const auto& source : work.sources) {
    if (!(may_stay ? make_user_wait(source.around) : wait_for(source.around))) return false;
  }
  std::uint64_t now = 0;
  {
    const state_lock lock{blocks_.mutex};
    const bool passed = std::ranges::all_of(work.sources, [](const growth::source& source) {
      return std::ranges::all_of(
          source.around, [](const block* each) { return owner_of(*each).has_passed(each->epoch); });
    });
    if (passed) return true;
    now = user_.epoch();
  }
  // The user's stream is ordered after the work on all sources, so its fence covers that.
  const auto known = blocks_.streams.fence_for(user_, now, &user_);
  if (!known) return mark_untracked(user_);
  work.in_use_until = known->epoch;
  return true;
}

void slow_path::move_by_alias(growth& work) {
  stream_state& last_user = work.in_use_until == 0 ? blocks_.streams.idle() : user_;
  // The background worker unmaps these, because an unmap is slow, or waits for all streams.
  std::list<pool_backing::old_mapping> old;
  std::vector<std::size_t> from;
  for (const auto& source : work.sources) {
    old.push_back({source.around.front(), source.chunk.order, &last_user, work.in_use_until});
    from.push_back(source.chunk.offset);
  }
  if (from.empty()) return;
  backing_.memory.alias(from, work.gap->offset);
  {
    const state_lock lock{blocks_.mutex};
    for (auto& source : work.sources) {
      source.stage = growth::source::moved;
      block& left = *source.around.front();
      blocks_.index.merge(left, source.chunk.offset + source.chunk.bytes);
      blocks_.index.make_leaving(left, last_user, work.in_use_until);
      blocks_.index.put_chunk(blocks_.index.take_chunk(source.chunk.offset),
                              work.gap->offset + work.mapped);
      ++blocks_.chunks_moved;
      work.mapped += source.chunk.bytes;
    }
  }
  backing_.old_mappings.splice(backing_.old_mappings.end(), old);
  backing_.note_old_mappings();
}

void slow_path::move_by_remap(growth& work) {
  // One at a time, because HIP may refuse to unmap one, and then to map the others again.
  for (auto& source : work.sources) {
    backing_.memory.set_aside(source.chunk.offset, source.chunk.bytes);
    source.stage = growth::source::set_aside;
    const state_lock lock{blocks_.mutex};
    source.node = blocks_.index.take_chunk(source.chunk.offset);
    blocks_.index.merge(*source.around.front(), source.chunk.offset + source.chunk.bytes);
    blocks_.index.make_unmapped(*source.around.front());
  }
  for (auto first = work.sources.begin(), last = first; first != work.sources.end(); first = last) {
    const std::size_t chunk = first->chunk.bytes;
    while (last != work.sources.end() && last->chunk.bytes == chunk) ++last;
    const auto bytes = static_cast<std::size_t>(last - first) * chunk;
    backing_.memory.create(work.gap->offset + work.mapped, bytes, chunk);
    const state_lock lock{blocks_.mutex};
    for (; first != last; ++first) {
      first->stage = growth::source::moved;
      blocks_.index.put_chunk(std::move(first->node), work.gap->offset + work.mapped);
      ++blocks_.chunks_moved;
      work.mapped += chunk;
    }
  }
}

void slow_path::create(growth& work, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t chunk = std::min(bytes, work.plan.chunk);
  const std::size_t start = work.gap->offset + work.mapped;
  block_index::chunk_map chunks;
  for (std::size_t at = 0; at < bytes; at += chunk)
    chunks.emplace(start + at, block_index::chunk{std::min(chunk, bytes - at), 0});
  backing_.memory.use_supply(request_.supply);
  backing_.memory.create(start, bytes, chunk);
  blocks_.report_event(memory_event_kind::grow, start, bytes,
                       user_.is_stream() ? user_.stream().get() : nullptr);
  const state_lock lock{blocks_.mutex};
  for (; !chunks.empty(); ++blocks_.chunks_created) {
    auto node = chunks.extract(chunks.begin());
    const std::size_t offset = node.key();
    blocks_.index.add_chunk(std::move(node), offset);
  }
  blocks_.index.note_high(blocks_.physical_bytes());
  end_plan(work, bytes);
  work.mapped += bytes;
  work.created += bytes;
}

bool slow_path::defer_unmap(block& left) noexcept {
  bool is_refused = false;
  // Without host memory the backend unmaps before the next map.
  detail::report_exceptions([&] {
    std::list<pool_backing::unmap_record> records;
    records.push_back({nullptr, &left, 0});
    block_index::chunk_map chunks;
    chunks.emplace(0, block_index::chunk{0, 0});
    auto [what, bytes] = backing_.memory.detach_refused(left.offset, left.bytes);
    if (what == nullptr) return;
    is_refused = true;
    records.back().what = std::move(what);
    records.back().chunk_bytes = bytes;
    if (bytes != 0) {
      chunks.begin()->second.bytes = bytes;
      blocks_.index.add_chunk(chunks.extract(chunks.begin()), left.offset);
    }
    backing_.refused.splice(backing_.refused.end(), records);
  });
  return is_refused;
}

void slow_path::undo(growth& work) noexcept {
  backing_.memory.release_set_aside();
  const state_lock lock{blocks_.mutex};
  end_plan(work, work.planned);
  blocks_.index.unclaim(work.around);
  for (const auto& each : work.sources) {
    if (each.stage == growth::source::waits) blocks_.index.unclaim(each.around);
  }
  if (work.gap == nullptr) return;
  blocks_.index.end_growth();
  block* left = work.gap;
  if (work.mapped != 0) {
    left = work.mapped < left->bytes ? &blocks_.index.cut(*left, work.mapped) : nullptr;
    free_surplus(*work.gap);
  }
  if (left != nullptr && !defer_unmap(*left)) blocks_.index.make_unmapped(*left);
}

void slow_path::free_surplus(block& gained) noexcept {
  // Other threads could make no fence in a thread's default stream.
  stream_state& owner = user_.thread() == 0 ? user_ : blocks_.streams.idle();
  gained.owner = &owner;
  // Nothing uses the memory, or a fence covers that.
  gained.epoch = owner.note_free(true);
  blocks_.index.make_free(gained);
}

std::size_t slow_path::finish(growth& work) noexcept {
  const state_lock lock{blocks_.mutex};
  end_plan(work, work.planned);
  block_index& index = blocks_.index;
  index.end_growth();
  if (work.mapped < work.gap->bytes) index.make_unmapped(index.cut(*work.gap, work.mapped));
  const candidate& target = work.plan.target;
  const std::size_t end = target.at + request_.bytes;
  if (work.gap->end() > end) free_surplus(index.cut(*work.gap, end - work.gap->offset));
  block* first = target.first == target.unmapped ? work.gap : work.around.front();
  if (target.at > first->offset) {
    block& rest = *first;
    first = &index.cut(rest, target.at - rest.offset);
    free_surplus(rest);
  }
  return blocks_.make_used(*first, end, user_,
                           work.created == 0 ? pool_source::moved_chunks : pool_source::new_chunks);
}

void slow_path::choose_equal_chunk() {
  if (!backing_.memory.traits.has_equal_chunks) return;
  if (const state_lock lock{blocks_.mutex};
      blocks_.index.unmapped_bytes() != blocks_.index.address_bytes())
    return;
  const std::size_t available = backing_.memory.available().bytes;
  const state_lock lock{blocks_.mutex};
  blocks_.choose_equal_chunk(available);
}

std::optional<std::size_t> slow_path::grow() {
  const detail::profiler_range range{"hipvmm pool: growth"};
  growth work;
  choose_equal_chunk();
  try {
    if (!begin(work)) return std::nullopt;
    require_awake();
    backing_.memory.traits.has_aliases ? move_by_alias(work) : move_by_remap(work);
    const growth_plan& plan = work.plan;
    // Perhaps there is enough for the request alone.
    if (!detail::attempt([&] { create(work, plan.wanted - work.mapped); },
                         [&](const shortage&) { return plan.wanted > plan.least; })) {
      backing_.memory.release_set_aside();
      create(work, plan.least - std::min(plan.least, work.mapped));
    }
  } catch (...) {
    undo(work);
    throw;
  }
  detail::log<log_level::debug>([&] {
    return name_of_pool(blocks_.index.base()) + " took " + format_bytes(work.created) +
           " from the device and moved " + std::to_string(work.sources.size()) +
           " chunks for a request of " + format_bytes(request_.bytes);
  });
  return finish(work);
}

}  // namespace hipvmm::mr::pool
