// SPDX-License-Identifier: MIT
#include <new>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "core/capture_mode.hpp"
#include "core/error.hpp"
#include "region/map_runs.hpp"
#include "region/region_state.hpp"
#include "region/retirement.hpp"

namespace hipvmm::detail {
namespace {

/// `rights` with read_write for all devices that may copy to memory of `target`; nothing if they
/// have it. AMD's runtime lets any device with access copy, whatever the stream.
std::optional<access_map> widened_for_copy(const access_map& rights, device_ref target) {
  access_map result = rights;
  for (const access_desc& each : rights.entries())
    result.set(each.device, access_right::read_write);
  result.set(target, access_right::read_write);
  return result == rights ? std::nullopt : std::optional{std::move(result)};
}

void require_readable(const access_map& rights, std::size_t offset, device_ref device) {
  if (rights.get(device) != access_right::none) return;
  throw std::invalid_argument{"region::move_range: device " + std::to_string(device.ordinal()) +
                              " has no right to the chunk at offset " + std::to_string(offset) +
                              ", which it may have to copy: give it access_right::read first"};
}

}  // namespace

std::size_t region_state::in_one_step(std::size_t count) const noexcept {
  const bool may_be_several = strategy->rights.begins_with_mapping(addresses->had_one_size());
  return std::min(count, may_be_several ? map_runs::most : 1);
}

void region_state::copy_into(std::vector<physical_chunk>& fresh,
                             const std::vector<backing_map::iterator>& old, stream_ref stream) {
  for (std::size_t done = 0, count = 0; done < fresh.size(); done += count) {
    count = in_one_step(fresh.size() - done);
    copy_into(&fresh[done], &old[done], count, stream);
  }
}

void region_state::copy_into(physical_chunk* fresh, const backing_map::iterator* old,
                             std::size_t count, stream_ref stream) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += fresh[i].bytes();
  auto elsewhere = make_range(acquire_with_retry([&] { return address_reservation{bytes}; }));
  mapping_list once{elsewhere};
  once.maps.resize(count);
  std::vector<std::optional<access_map>> wider(count);
  map_runs runs{*this, {*elsewhere, 0}, map_runs::life::ends};
  std::size_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const backing& held = old[i]->second;
    wider[i] = widened_for_copy(rights_to(held), fresh[i].device());
    runs.add(end, fresh[i], wider[i] ? &*wider[i] : held.own_rights.get(), once.maps[i]);
    end += fresh[i].bytes();
  }
  runs.finish();
  wait_until(visible_if_mapped_now());
  try {
    for (std::size_t i = 0; i < count; ++i)
      copy_async(stream, once.maps[i].get(), old[i]->second.map.get(), fresh[i].bytes());
    const relaxed_captures others;
    stream.synchronize();
  } catch (...) {
    // Copies may be under way. If HIP refuses to wait, leaks all that they write to, because they
    // might destroy the bytes of a next user.
    if (!wait_past_captures(users)) {
      if (new (std::nothrow) std::pair{elsewhere, std::move(once.maps)} == nullptr)
        for (mapping& each : once.maps) static_cast<void>(each.release());
      once.maps.clear();
      for (std::size_t i = 0; i < count; ++i)
        static_cast<void>(new (std::nothrow) physical_chunk{std::move(fresh[i])});
    }
    throw;
  }
  if (!await_records()) elsewhere->mark_in_use();
}

void region_state::swap_in(backing_map::iterator* at, physical_chunk* fresh, std::size_t count) {
  // Tries before the unmap whether HIP would accept the present rights after a failure.
  if (const auto& [offset, last] = *at[count - 1]; !strategy->rights.takes_any_mapping)
    set_first_rights(mapped_here(), offset, last.bytes(), last.chunk.device(),
                     last.own_rights.get());
  may_pin_memory = true;
  try {
    downward_unmaps unmaps{*addresses};
    for (std::size_t i = count; i-- > 0;) unmaps.add(at[i]->second.map);
    unmaps.finish();
  } catch (...) {
    restore_lost();
    throw;
  }
  for (std::size_t i = 0; i < count; ++i) std::swap(at[i]->second.chunk, fresh[i]);
  try {
    map_runs runs{*this, mapped_here()};
    for (std::size_t i = 0; i < count; ++i) {
      backing& held = at[i]->second;
      runs.add(at[i]->first, held.chunk, held.own_rights.get(), held.map, &held.visible);
    }
    runs.finish();
    wait_until(visible_if_mapped_now());
  } catch (...) {
    swap_out(at, fresh, count);
    throw;
  }
}

void region_state::swap_out(backing_map::iterator* at, physical_chunk* old,
                            std::size_t count) noexcept {
  for (std::size_t i = count; i-- > 0;) {
    backing& held = at[i]->second;
    held.unmap_in(*addresses);
    std::swap(held.chunk, old[i]);
    addresses->refused().take_if_mapped(old[i]);
  }
  restore_lost();
}

std::vector<backing_map::iterator> region_state::chunks_to_move(std::size_t offset,
                                                                std::size_t bytes,
                                                                memory_location to) {
  std::vector<backing_map::iterator> result;
  const auto all = backings_within(backings, offset, bytes);
  for (auto at = all.begin(); at != all.end(); ++at) {
    if (at->first < offset || at->first + at->second.bytes() > offset + bytes)
      refuse_cut("move_range", offset, bytes, *at);
    require_not_moving("move_range", at->second);
    if (at->second.chunk.location() != to) result.push_back(at);
  }
  return result;
}

std::unique_ptr<const memory_strategy> region_state::add_memory_of(device_ref other) {
  // map_runs checks chunks with rights of their own.
  access_map next = rights;
  next.add_owner(other);
  memory_users next_users = users;
  if (std::ranges::find(users.owners, other) == users.owners.end())
    next_users.owners.push_back(other);
  std::unique_ptr<const memory_strategy> before;
  if (!strategy->has(other)) {
    capability found = capability_of(other);
    if (found.path() == memory_path::fallback)
      throw unsupported{
          "region::move_range: device " + std::to_string(other.ordinal()) +
          " offers no virtual memory management that can be used: " + found.why_fallback()};
    memory_strategy::record_list owners = strategy->owners();
    owners.emplace_back(other, std::move(found));
    before = std::exchange(strategy, std::make_unique<memory_strategy>(std::move(owners)));
    if (strategy->unmaps_runs(other)) addresses->note_unmaps_many(other);
  }
  rights = std::move(next);
  users = std::move(next_users);
  return before;
}

void region_state::forget_unused() noexcept {
  const std::vector<device_ref>& placed = options.placement.devices();
  std::erase_if(users.owners, [&](device_ref each) {
    const bool is_used = each == device || std::ranges::find(placed, each) != placed.end() ||
                         std::ranges::any_of(backings, [each](const auto& entry) {
                           return entry.second.chunk.device() == each;
                         });
    if (!is_used) rights.remove_owner(each);
    return !is_used;
  });
  const auto is_in_own = [&](const backing_map& map, device_ref each) {
    return std::ranges::any_of(map, [each](const auto& entry) {
      const access_map* const own = entry.second.own_rights.get();
      return own != nullptr && own->get(each) != access_right::none;
    });
  };
  std::erase_if(users.devices, [&](device_ref each) {
    return rights.get(each) == access_right::none && !is_in_own(backings, each) &&
           !is_in_own(old_mappings, each);
  });
}

std::size_t region_state::move_range(std::size_t offset, std::size_t bytes, memory_location to,
                                     stream_ref stream) {
  std::vector<backing_map::iterator> moving = chunks_to_move(offset, bytes, to);
  if (moving.empty()) return 0;
  if (to.device() && rights.get(*to.device()) != access_right::read_write)
    throw std::invalid_argument{"region::move_range: device " +
                                std::to_string(to.device()->ordinal()) +
                                " cannot hold bytes of the region, because it has no right to "
                                "write to it: grant it read_write first"};
  for (const auto at : moving) {
    const access_map& kept = rights_to(at->second);
    require_readable(kept, at->first, at->second.chunk.device());
    if (to.device()) require_readable(kept, at->first, *to.device());
  }
  {
    // Now, because HIP may refuse the wait, as during captures: nothing is submitted yet.
    const relaxed_captures others;
    stream.synchronize();
  }
  const bool is_uncached = std::ranges::any_of(
      moving, [](const auto& at) { return at->second.chunk.memory() == chunk_memory::uncached; });
  if (to.is_host()) {
    require_host_chunks("region::move_range", *strategy, options.shareable, to);
    if (is_uncached)
      throw unsupported{
          "region::move_range: uncached chunks are memory of devices, and cannot move to the host"};
  } else if (is_uncached) {
    memory_strategy{*to.device()}.uncached_chunks.require("region::move_range");
  }
  drop_prepared();
  std::unique_ptr<const memory_strategy> before;
  if (to.device()) before = add_memory_of(*to.device());
  std::vector<physical_chunk> fresh;
  try {
    fresh = with_advice([&] { return acquire_like(moving, to); },
                        [&] {
                          return "region::move_range moved none of " +
                                 std::to_string(moving.size()) +
                                 " chunks: free memory there, or move fewer bytes at a time";
                        });
    copy_into(fresh, moving, stream);
    before.reset();  // from here on `addresses` may hold memory of the new device
    replace_chunks(moving, fresh);
  } catch (...) {
    forget_unused();
    if (before) strategy = std::move(before);
    throw;
  }
  forget_unused();
  // The old addresses of a chunk that moves are used until end_move().
  if (old_mappings.empty() && must_reclaim_pinned()) reclaim_pinned();
  std::size_t moved = 0;
  for (const auto at : moving) moved += at->second.bytes();
  return moved;
}

std::vector<physical_chunk> region_state::acquire_like(
    const std::vector<backing_map::iterator>& old, std::optional<memory_location> to) const {
  std::vector<physical_chunk> fresh;
  fresh.reserve(old.size());
  for (const auto at : old) {
    const physical_chunk& like = at->second.chunk;
    fresh.push_back(acquire_with_retry(
        [&] { return acquire(to.value_or(like.location()), like.bytes(), like.memory()); }));
  }
  return fresh;
}

void region_state::replace_chunks(std::vector<backing_map::iterator>& moving,
                                  std::vector<physical_chunk>& fresh) {
  for (std::size_t done = 0, count = 0; done < moving.size(); done += count) {
    count = in_one_step(moving.size() - done);
    try {
      swap_in(&moving[done], &fresh[done], count);
    } catch (...) {
      swap_out(moving.data(), fresh.data(), done);
      throw;
    }
  }
  for (std::size_t i = 0; i < moving.size(); ++i) {
    moving[i]->second.serial = next_serial();
    recycle(std::move(fresh[i]));
  }
}

void region_state::map_all(mapping_list& moved) {
  moved.maps.resize(backings.size());
  map_runs runs{*this, {*moved.range, 0, nullptr}};
  auto next = moved.maps.begin();
  for (const auto& [offset, held] : backings)
    runs.add(offset, held.chunk, held.own_rights.get(), *next++);
  runs.finish();
}

void region_state::move_to(mapping_list& moved) noexcept {
  const moment visible = visible_if_mapped_now();
  auto next = moved.maps.begin();
  for (auto& [offset, held] : backings) {
    std::swap(held.map, *next++);
    held.visible = visible;
  }
  std::swap(addresses, moved.range);
  may_pin_memory = false;
}

void region_state::reclaim_pinned() noexcept {
  const auto change_to = [this](address_reservation&& fresh) {
    auto range = make_range(std::move(fresh));
    mapping_list moved{range};
    map_all(moved);
    move_to(moved);
  };
  report_exceptions([&] {
    void* const base = addresses->base();
    const std::size_t bytes = addresses->bytes();
    finish_retired(*addresses, 0, bytes);
    // Still shared in an error handler of a releasing thread, which does not wait for itself.
    if (shares_addresses()) return;
    if (!backings.empty() || frees_late_records()) wait_for_users(users);
    // Chunks move away before the old addresses are freed, so that none is ever without a mapping.
    change_to(reserve(bytes));
    address_reservation same{bytes, 0, base};
    if (same.get() == base) change_to(std::move(same));
  });
  await_visible(0, max_bytes());
}

void region_state::return_pinned_memory() noexcept {
  if (!backings.empty() || !old_mappings.empty() || !strategy->pins_memory) return;
  report_exceptions([this] {
    drop_prepared();
    if (addresses->pinned_bytes() == 0) return;
    finish_retired(*addresses, 0, addresses->bytes());
    addresses->refused().retry(base(), addresses->bytes());
    if (shares_addresses() || !addresses->refused().empty()) return;
    if (frees_late_records()) wait_for_users(users);
    free_for_a_moment("region");
  });
}

void region_state::free_for_a_moment(const char* subject) {
  if (addresses->reclaim_pinned() == reclaim_result::refused) return;  // it was reported
  may_pin_memory = false;
  addresses->require_known();
  if (addresses->is_lost())
    warn(subject,
         "the addresses at " + address_text(base()) + ", " + format_bytes(max_bytes()) +
             ", were freed so that their memory returns, and others took them before "
             "they were reserved again: commit(), adopt() and resume() throw until they are free");
}

}  // namespace hipvmm::detail
