// SPDX-License-Identifier: MIT
// The part of region that gives addresses another chunk and keeps their bytes.
#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "core/capture_mode.hpp"
#include "region/device_work.hpp"
#include "region/mapped_region.hpp"
#include "region/retirement.hpp"

namespace hipvmm::detail {
namespace {

/// The rights for a copy that writes to memory of `target`: whichever device makes it, it may
/// write. Returns nothing where `rights` say so already.
std::optional<access_map> widened_for_copy(const access_map& rights, device_ref target) {
  access_map result = rights;
  for (const access_desc& each : rights.entries())
    result.set(each.device, access_right::read_write);
  result.set(target, access_right::read_write);
  return result == rights ? std::nullopt : std::optional{std::move(result)};
}

/// Throws: std::invalid_argument where a device whose engine may copy the chunk cannot read it.
void require_readable(const access_map& rights, std::size_t offset, device_ref device) {
  if (rights.get(device) != access_right::none) return;
  throw std::invalid_argument{"region::move_range: device " + std::to_string(device.ordinal()) +
                              " has no right to the chunk at offset " + std::to_string(offset) +
                              ", which it may have to copy: give it access_right::read first"};
}

}  // namespace

void mapped_region::copy_into(const physical_chunk& fresh, const backing& old,
                              stream_ref stream) const {
  auto elsewhere = std::make_shared<address_range>(
      make_with_reclaim([&] { return address_reservation{fresh.bytes()}; }));
  mapping_list once{elsewhere};
  // AMD's runtime lets any device with access copy, whatever the stream.
  const access_map& kept = old.own_rights ? *old.own_rights : rights;
  const std::optional<access_map> wider = widened_for_copy(kept, fresh.device());
  once.maps.push_back(
      map_unregistered({*elsewhere, 0}, 0, fresh, wider ? &*wider : old.own_rights.get()));
  const mapping& temporary = once.maps.front();
  wait_until(visible_if_mapped_now());
  copy_async(stream, temporary.get(), old.map.get(), fresh.bytes());
  try {
    const relaxed_captures others;
    stream.synchronize();
  } catch (...) {
    // The copy may be under way, and must not outlive the mapping it writes to. Where HIP allows no
    // wait, the mapping is lost, which is less than the bytes that come there next.
    if (!outlast_refusals(users)) {
      static_cast<void>(new (std::nothrow) std::pair{elsewhere, std::move(once.maps.front())});
      once.maps.clear();
    }
    throw;
  }
  if (!await_records()) elsewhere->note_no_wait();
}

backing mapped_region::swap_in(backing_map::iterator at, physical_chunk chunk) {
  auto& [offset, held] = *at;
  require_grantable(offset, held);
  backing other;
  other.chunk = std::move(chunk);
  held.map.unmap();
  holds_memory = true;
  try {
    other.map = map_with_rights(mapped_here(), offset, other.chunk, held.own_rights.get());
    wait_until(visible_if_mapped_now());
  } catch (...) {
    addresses->refused().keep_chunk(other.chunk);
    restore(at);
    throw;
  }
  other.own_rights = held.own_rights;
  other.serial = next_serial();
  std::swap(held, other);
  return other;
}

std::vector<backing_map::iterator> mapped_region::chunks_to_move(std::size_t offset,
                                                                 std::size_t bytes,
                                                                 memory_location to) {
  std::vector<backing_map::iterator> result;
  auto at = backings.upper_bound(offset);
  if (at != backings.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second.bytes() > offset) at = before;
  }
  for (; at != backings.end() && at->first < offset + bytes; ++at) {
    const std::size_t end = at->first + at->second.bytes();
    if (at->first < offset || end > offset + bytes)
      throw std::invalid_argument{
          "region::move_range: the " + std::to_string(bytes) + " bytes from offset " +
          std::to_string(offset) + " cut the chunk from offset " + std::to_string(at->first) +
          " to " + std::to_string(end) + ": name whole chunks, see chunks()"};
    for (const auto& [from, left] : left_behind)
      if (left.elsewhere == at->second.chunk.get()) require_none_left_behind("move_range", from, 1);
    if (at->second.chunk.location() != to) result.push_back(at);
  }
  return result;
}

bool mapped_region::add_memory_of(device_ref other) {
  // Chunks with rights of their own are checked when they are mapped.
  access_map next = rights;
  next.add_owner(other);
  memory_users next_users = users;
  if (std::find(users.owners.begin(), users.owners.end(), other) == users.owners.end())
    next_users.owners.push_back(other);
  const bool is_new = std::none_of(known.begin(), known.end(),
                                   [&](const auto& each) { return each.first == other; });
  if (is_new) {
    capability found = capability_of(other);
    if (found.path() == memory_path::fallback)
      throw unsupported{
          "region::move_range: device " + std::to_string(other.ordinal()) +
          " offers no virtual memory management that can be used: " + found.why_fallback()};
    known.emplace_back(other, std::move(found));
  }
  rights = std::move(next);
  users = std::move(next_users);
  return is_new;
}

void mapped_region::forget_unused() noexcept {
  const std::vector<device_ref>& placed = options.placement.devices();
  std::erase_if(users.owners, [&](device_ref each) {
    const bool is_used =
        each == device || std::find(placed.begin(), placed.end(), each) != placed.end() ||
        std::any_of(backings.begin(), backings.end(),
                    [each](const auto& entry) { return entry.second.chunk.device() == each; });
    if (!is_used) rights.remove_owner(each);
    return !is_used;
  });
  const auto is_in_own = [&](const backing_map& map, device_ref each) {
    return std::any_of(map.begin(), map.end(), [each](const auto& entry) {
      const access_map* const own = entry.second.own_rights.get();
      return own != nullptr && own->get(each) != access_right::none;
    });
  };
  std::erase_if(users.devices, [&](device_ref each) {
    return rights.get(each) == access_right::none && !is_in_own(backings, each) &&
           !is_in_own(left_behind, each);
  });
}

std::size_t mapped_region::move_range(std::size_t offset, std::size_t bytes, memory_location to,
                                      stream_ref stream) {
  const std::vector<backing_map::iterator> moving = chunks_to_move(offset, bytes, to);
  if (moving.empty()) return 0;
  if (to.device() && rights.get(*to.device()) != access_right::read_write)
    throw std::invalid_argument{"region::move_range: device " +
                                std::to_string(to.device()->ordinal()) +
                                " has no right to write to the region whose bytes it is to hold: "
                                "grant it read_write first"};
  for (const auto at : moving) {
    const backing& held = at->second;
    const access_map& kept = held.own_rights ? *held.own_rights : rights;
    require_readable(kept, at->first, held.chunk.device());
    if (to.device()) require_readable(kept, at->first, *to.device());
  }
  // A wait that HIP refuses, as during captures, is refused before anything was submitted.
  {
    const relaxed_captures others;
    stream.synchronize();
  }
  const bool is_uncached = std::any_of(moving.begin(), moving.end(), [](const auto& at) {
    return at->second.chunk.memory() == chunk_memory::uncached;
  });
  if (to.is_host()) {
    require_host_chunks("region::move_range", device, known.front().second, options.shareable, to);
    if (is_uncached)
      throw unsupported{
          "region::move_range: uncached chunks are memory of devices, and cannot move to the host"};
  } else if (is_uncached) {
    require_uncached_chunks("region::move_range", *to.device(), capability_of(*to.device()));
  }
  drop_prepared();
  const bool is_new = to.device() && add_memory_of(*to.device());
  std::vector<physical_chunk> fresh;
  try {
    fresh = copies_of(moving, to, stream);
  } catch (...) {
    forget_unused();
    // Nothing of it was mapped in the region's addresses.
    if (is_new) known.pop_back();
    throw;
  }
  try {
    replace_chunks(moving, fresh);
  } catch (...) {
    forget_unused();
    throw;
  }
  forget_unused();
  // The old addresses of a chunk that moves are used until end_move().
  if (left_behind.empty() && must_re_reserve()) re_reserve();
  std::size_t moved = 0;
  for (const auto at : moving) moved += at->second.bytes();
  return moved;
}

std::vector<physical_chunk> mapped_region::copies_of(
    const std::vector<backing_map::iterator>& moving, memory_location to, stream_ref stream) const {
  std::vector<physical_chunk> fresh;
  fresh.reserve(moving.size());
  try {
    for (const auto at : moving) {
      const physical_chunk& old = at->second.chunk;
      fresh.push_back(make_with_reclaim([&] { return acquire(to, old.bytes(), old.memory()); }));
    }
  } catch (const out_of_memory& error) {
    throw out_of_memory{error, "region::move_range was to move " + std::to_string(moving.size()) +
                                   " chunks there, and moved none: free memory there, or move "
                                   "fewer bytes at a time"};
  }
  for (std::size_t i = 0; i < moving.size(); ++i) copy_into(fresh[i], moving[i]->second, stream);
  return fresh;
}

void mapped_region::replace_chunks(const std::vector<backing_map::iterator>& moving,
                                   std::vector<physical_chunk>& fresh) {
  std::vector<backing> replaced;
  replaced.reserve(moving.size());
  try {
    for (std::size_t i = 0; i < moving.size(); ++i)
      replaced.push_back(swap_in(moving[i], std::move(fresh[i])));
  } catch (...) {
    for (std::size_t i = replaced.size(); i-- > 0;) {
      moving[i]->second.unmap_in(*addresses);
      std::swap(moving[i]->second, replaced[i]);
      addresses->refused().keep_chunk(replaced[i].chunk);
      restore(moving[i]);
    }
    throw;
  }
  for (backing& each : replaced) recycle(std::move(each.chunk));
}

}  // namespace hipvmm::detail
