// SPDX-License-Identifier: MIT
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/capture_mode.hpp"
#include "core/error.hpp"
#include "region/region_state.hpp"
#include "region/retirement.hpp"

namespace hipvmm::detail {

backing_map::iterator region_state::require_whole_until(backing_map::iterator first,
                                                        std::size_t end_offset) {
  // A moving chunk would go to the cache while it is still mapped at its old offset.
  auto last = first;
  for (; last != backings.end() && last->first + last->second.bytes() <= end_offset; ++last)
    require_not_moving("decommit", last->second);
  return last;
}

std::size_t region_state::decommit(std::size_t offset, std::size_t bytes) {
  prefetch.cancel_or_wait();
  const auto first = backings.lower_bound(offset);
  const auto last = require_whole_until(first, offset + bytes);
  drop_prepared_behind(last);
  if (first != last) may_pin_memory = true;
  try {
    downward_unmaps unmaps{*addresses};
    for (auto at = last; at != first;) unmaps.add((--at)->second.map);
    unmaps.finish();
  } catch (...) {
    restore_lost();
    throw;
  }
  std::size_t returned = 0;
  bool had_own_rights = false;
  for (auto at = first; at != last; at = backings.erase(at)) {
    returned += at->second.bytes();
    had_own_rights = had_own_rights || at->second.own_rights != nullptr;
    recycle(std::move(at->second.chunk));
  }
  committed -= returned;
  if (had_own_rights) forget_unused();
  if (backings.empty() && must_reclaim_pinned()) reclaim_pinned();
  return returned;
}

std::size_t region_state::decommit(std::size_t offset, std::size_t bytes, stream_ref stream) {
  const relaxed_captures others;
  const std::size_t before = committed;
  prefetch.cancel_or_wait();
  const auto first = backings.lower_bound(offset);
  const auto last = require_whole_until(first, offset + bytes);
  drop_prepared_behind(last);
  // Addresses can be re-reserved only when nothing is mapped in them any more.
  const bool empties = reclaims_pinned() && first == backings.begin() && last == backings.end();
  if (empties || (!stream.is_done() && !retire_chunks(first, last, stream))) stream.synchronize();
  decommit(offset, bytes);
  return before - committed;
}

std::size_t region_state::trim(std::size_t bytes, stream_ref stream, tail_chunk tail) {
  require_none_left_behind("trim", 0, max_bytes());
  const relaxed_captures others;
  const std::size_t kept_end = align_up(bytes, granularity);
  const std::size_t before = committed;
  const bool replace = tail == tail_chunk::replace;
  drop_prepared();
  const bool empties =
      reclaims_pinned() && (backings.empty() || backings.begin()->first >= kept_end);
  if (replace || empties ||
      (!stream.is_done() && !retire_chunks(backings.lower_bound(kept_end), backings.end(), stream)))
    stream.synchronize();
  decommit(kept_end, max_bytes() - kept_end);
  if (replace) {
    replace_tail(kept_end, stream);
    if (must_reclaim_pinned()) reclaim_pinned();
  }
  return before - committed;
}

bool region_state::retire_chunks(backing_map::iterator first, backing_map::iterator last,
                                 stream_ref stream) {
  if (first == last) return true;
  device_list devices = devices_of(users);
  std::optional<event> mark = record_event_in(stream, devices);
  if (!mark) return false;
  const device_ref owner = first->second.chunk.device();
  backing_map behind;
  std::size_t bytes = 0;
  bool had_own_rights = false;
  for (auto at = first; at != last;) {
    bytes += at->second.bytes();
    had_own_rights = had_own_rights || at->second.own_rights != nullptr;
    behind.insert(behind.end(), backings.extract(at++));
  }
  if (!retire_backings(behind, addresses, cache(), std::move(mark), std::move(devices), owner)) {
    backings.merge(behind);
    return false;
  }
  committed -= bytes;
  may_pin_memory = true;
  if (had_own_rights) forget_unused();
  return true;
}

bool region_state::retire_all() noexcept {
  membership.end();
  // Waits also for a thread that gives the prepared chunk to another object.
  prefetch.cancel_or_wait();
  if (backings.empty() && sleep.resumed_backings().empty() &&
      !(may_pin_memory && frees_late_records()))
    return true;
  merge(prefetch.ready());
  backings.merge(old_mappings);
  backings.merge(sleep.resumed_backings());
  try {
    // Without host memory for the list, the caller waits for the work itself.
    if (!retire_backings(backings, addresses, cache(), std::nullopt, devices_of(users), device))
      return false;
    addresses.reset();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void region_state::replace_tail(std::size_t end, stream_ref stream) {
  auto at = backings.lower_bound(end);
  if (at == backings.begin()) return;
  --at;
  auto& [offset, old] = *at;
  if (offset + old.bytes() <= end || offset + old.bytes() - end <= end / 8) return;
  if (old.chunk.shared()) return;  // the other process would keep it
  // The region's device copies, and needs read_write.
  if (rights_to(old).get(device) != access_right::read_write) return;
  const std::size_t kept = end - offset;
  if (!strategy->rights.takes_any_mapping) {
    // HIP would refuse rights to a chunk of another size.
    mapped_sizes beside;
    for (const auto& [start, each] : backings) {
      if (each.own_rights != nullptr) return;
      if (addresses->part_start(start) != addresses->part_start(offset)) continue;
      beside.add(start, start == offset ? kept : each.bytes());
    }
    if (!rights_setting::can_add_to(beside)) return;
  }

  const std::size_t before = old.bytes();
  std::vector<backing_map::iterator> tail{at};
  std::vector<physical_chunk> fresh(1);
  const auto copy = [&] {
    fresh[0] = acquire(old.chunk.location(), kept, old.chunk.memory());
    copy_into(fresh, tail, stream);
  };
  if (!attempt(copy)) return;
  replace_chunks(tail, fresh);
  committed -= before - kept;
}

}  // namespace hipvmm::detail
