// SPDX-License-Identifier: MIT
#include "region/mapped_region.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/hip_compat.hpp"
#include "region/retirement.hpp"
#include "runtime/device.hpp"

namespace hipvmm::detail {
namespace {

/// Reserves `wanted` bytes, or halves of it down to one granule.
template <typename Reserve>
address_reservation reserve_most(std::size_t wanted, std::size_t granularity, Reserve reserve) {
  for (std::size_t bytes = wanted;; bytes = align_up(bytes / 2, granularity)) {
    try {
      return make_with_reclaim([&] { return reserve(bytes); });
    } catch (const out_of_memory&) {
      if (bytes <= granularity) throw;
    }
  }
}

/// The first of `backings` that lies partly in [offset, offset + bytes), or the end.
backing_map::const_iterator first_within(const backing_map& backings, std::size_t offset,
                                         std::size_t bytes) {
  auto at = backings.upper_bound(offset);
  if (at != backings.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second.bytes() > offset) at = before;
  }
  return bytes != 0 && at != backings.end() && at->first < offset + bytes ? at : backings.end();
}

/// A multiple of the minimum granularity of each device, all of which are powers of two.
std::size_t common_granularity(device_ref owner, const chunk_placement& placement) {
  std::size_t result = granularity_of(owner).minimum;
  for (const device_ref each : placement.devices())
    result = std::max(result, granularity_of(each).minimum);
  return result;
}

/// The records of `owner` and of all devices of the placement. Throws: std::invalid_argument,
/// unsupported, where a region of `owner` cannot be placed so.
std::vector<std::pair<device_ref, capability>> require_placement(device_ref owner,
                                                                 const capability& found,
                                                                 const region_options& chosen) {
  const chunk_placement& placement = chosen.placement;
  const std::vector<device_ref>& devices = placement.devices();
  std::vector<std::pair<device_ref, capability>> known{{owner, found}};
  if (const std::optional<std::size_t> budget = placement.budget_bytes()) {
    const std::size_t unit = granularity_of(owner).minimum;
    if (*budget % unit != 0)
      throw std::invalid_argument{
          "region_options::placement: a budget of " + std::to_string(*budget) +
          " bytes; it must be a multiple of the granularity of device " +
          std::to_string(owner.ordinal()) + ", " + std::to_string(unit) + " bytes"};
    mapped_region::require_host_chunks("region_options::placement", owner, found, chosen.shareable,
                                       placement.beyond_budget());
    if (chosen.memory == chunk_memory::uncached)
      throw unsupported{
          "region_options::memory: uncached chunks are memory of devices, and the placement spills "
          "to the host; leave one of both out"};
  }
  if (!placement.is_striped()) return known;
  if (std::find(devices.begin(), devices.end(), owner) == devices.end())
    throw std::invalid_argument{"region_options::placement: device " +
                                std::to_string(owner.ordinal()) +
                                ", the region's, is none of the devices of the stripes; name it "
                                "among them, or make the region on one of them"};
  for (const device_ref each : devices_of(placement, owner)) {
    if (each == owner) continue;
    capability its = capability_of(each);
    if (its.path() == memory_path::fallback)
      throw unsupported{
          "region_options::placement: stripes on device " + std::to_string(each.ordinal()) +
          ", which offers no virtual memory management that can be used: " + its.why_fallback() +
          "; leave it out"};
    known.emplace_back(each, std::move(its));
  }
  return known;
}

memory_users users_of(const access_map& rights) {
  memory_users result{{}, {rights.owner()}};
  for (const access_desc& entry : rights.entries()) result.devices.push_back(entry.device);
  result.owners.insert(result.owners.end(), rights.other_owners().begin(),
                       rights.other_owners().end());
  return result;
}

}  // namespace

access_map mapped_region::rights_of(device_ref owner, const access_list& wanted,
                                    const chunk_placement& placement) {
  access_map result{owner, wanted};
  for (const device_ref each : placement.devices()) {
    result.add_owner(each);
    if (!wanted.find(each)) result.set(each, access_right::read_write);
  }
  return result;
}

void mapped_region::require_host_chunks(const char* what, device_ref owner, const capability& found,
                                        handle_type shareable, memory_location where) {
  const trait needed = where.node() ? trait::host_node_chunks : trait::host_chunks;
  if (!found.has(needed))
    throw unsupported{std::string{what} + ": device " + std::to_string(owner.ordinal()) +
                      " cannot use chunks in memory of " +
                      (where.node() ? "a NUMA node of the host: " : "the host: ") +
                      found.reason(needed)};
  if (shareable != handle_type::none)
    throw unsupported{std::string{what} +
                      ": memory of the host cannot be shared with other processes: leave "
                      "region_options::shareable at none"};
}

chunk_place mapped_region::place_at(std::size_t offset, const backing_map* made) const noexcept {
  std::size_t held = 0;
  if (options.placement.budget_bytes()) {
    for (const backing_map* const each : {&backings, &prepared, made}) {
      if (each == nullptr) continue;
      for (const auto& [at, one] : *each)
        if (!one.chunk.empty() && one.chunk.location() == device) held += one.chunk.bytes();
    }
  }
  return place_of(options.placement, device, placement_start + offset, held);
}

void mapped_region::require_uncached_chunks(const char* what, device_ref device,
                                            const capability& found) {
  if (!found.has(trait::uncached_chunks))
    throw unsupported{std::string{what} + ": device " + std::to_string(device.ordinal()) +
                      " makes no uncached chunks: " + found.reason(trait::uncached_chunks)};
}

physical_chunk mapped_region::acquire(memory_location where, std::size_t bytes,
                                      chunk_memory memory) const {
  if (!where.device()) return physical_chunk{where, bytes, device};
  return cache().acquire(*where.device(), bytes, options.shareable, memory);
}

bool mapped_region::needs(quirk which) const noexcept {
  return std::any_of(known.begin(), known.end(),
                     [which](const auto& each) { return each.second.needs(which); });
}

address_reservation mapped_region::reserve(std::size_t bytes) const {
  return needs(quirk::re_reserve) ? reserve_aside(bytes) : address_reservation{bytes};
}

const std::pair<device_ref, capability>* mapped_region::first_without(trait which) const noexcept {
  const auto at = std::find_if(known.begin(), known.end(),
                               [which](const auto& each) { return !each.second.has(which); });
  return at != known.end() ? &*at : nullptr;
}

mapped_region::mapped_region(device_ref owner, std::size_t max_bytes, const region_options& chosen,
                             const capability& found)
    : device{owner},
      known{require_placement(owner, found, chosen)},
      granularity{common_granularity(owner, chosen.placement)},
      rights{rights_of(owner, chosen.access, chosen.placement)},
      users{users_of(rights)},
      options{chosen},
      addresses{std::make_shared<address_range>(
          reserve_most(align_up(max_bytes, granularity), granularity,
                       [this](std::size_t bytes) { return reserve(bytes); }))} {
  if (options.memory == chunk_memory::uncached)
    for (const auto& [each, its] : known)
      require_uncached_chunks("region_options::memory", each, its);
}

mapped_region::~mapped_region() {
  membership.end();
  preparation.cancel_or_wait();
  merge(prepared);
  backings.merge(left_behind);
  if (!waking.empty()) static_cast<void>(outlast_refusals(users));
  backings.merge(waking);
  const bool was_used = holds_memory || !backings.empty();
  if (addresses) recycle_all(backings, *addresses, cache());
  if (addresses && was_used && !await_records()) addresses->note_no_wait();
}

// In clr up to 6.4 a command that used addresses holds their record. The free of addresses waits
// for HIP's thread that drops finished commands, see address_reservation.cpp; here the devices are
// waited for first, so that the commands are finished and handed to that thread.
bool mapped_region::frees_late_records() noexcept {
  static const bool late = [] {
    bool found = true;
    report_exceptions([&] { found = hip_compat::forgets_addresses_late(runtime_version()); });
    return found;
  }();
  return late;
}

bool mapped_region::await_records() const noexcept {
  return !frees_late_records() || outlast_refusals(users);
}

backing_map mapped_region::make_missing(const address_range& range, std::size_t offset,
                                        std::size_t bytes) {
  backing_map made;
  try {
    add_missing(made, range, offset, bytes);
  } catch (...) {
    release_all(made, range);
    throw;
  }
  return made;
}

void mapped_region::add_missing(backing_map& made, const address_range& range, std::size_t offset,
                                std::size_t bytes) {
  const std::size_t end = offset + bytes;
  auto next = backings.upper_bound(offset);
  if (next != backings.begin()) {
    const auto previous = std::prev(next);
    offset = std::max(offset, previous->first + previous->second.bytes());
  }
  while (offset < end) {
    const std::size_t gap_end = next == backings.end() ? end : std::min(end, next->first);
    while (offset < gap_end) {
      const chunk_place place = place_at(offset, &made);
      const std::size_t size = std::min({gap_end - offset, range.longest_at(offset), place.bytes});
      // Chunks that are still to be released hold on to the region's addresses.
      if (addresses.use_count() > 1) finish_retired(range, offset, size);
      physical_chunk chunk =
          make_with_reclaim([&] { return acquire(place.where, size, options.memory); });
      made.try_emplace(offset).first->second.chunk = std::move(chunk);
      offset += size;
    }
    if (next != backings.end()) {
      offset = next->first + next->second.bytes();
      ++next;
    }
  }
  // Not before all chunks are there: a device that is full keeps nothing in addresses.
  try {
    for (auto& [at, one] : made) {
      one.map = map_with_rights({range, range.bytes(), &made}, at, one.chunk);
      one.visible = visible_if_mapped_now();
    }
  } catch (...) {
    if (&range == addresses.get()) holds_memory = true;
    throw;
  }
}

backing_map mapped_region::make_missing_or_explain(const address_range& range, std::size_t offset,
                                                   std::size_t bytes) {
  try {
    return make_missing(range, offset, bytes);
  } catch (const out_of_memory& error) {
    std::string advice;
    if (error.resource() == exhausted::device_memory) {
      const bool is_placed = !options.placement.is_one_device();
      advice = ": free memory of " +
               (is_placed ? "device " + std::to_string(error.device()) : "the device") +
               ", or ask for less";
    } else if (error.resource() == exhausted::host_memory) {
      advice = ": free memory of the host, or ask for less";
    }
    throw out_of_memory{error, "the region holds " + format_bytes(committed) + " in " +
                                   std::to_string(backings.size()) +
                                   (backings.size() == 1 ? " chunk" : " chunks") +
                                   ", was asked to hold " + format_bytes(bytes) + " from offset " +
                                   std::to_string(offset) + ", and stays as it was" + advice};
  }
}

void mapped_region::merge(backing_map& made) noexcept {
  for (auto& entry : made) {
    committed += entry.second.bytes();
    entry.second.serial = next_serial();
  }
  backings.merge(made);
}

backing_map::const_iterator mapped_region::chunk_with(std::size_t offset) const noexcept {
  return first_within(backings, offset, 1);
}

bool mapped_region::is_backed_within(std::size_t offset, std::size_t bytes) const noexcept {
  return first_within(backings, offset, bytes) != backings.end();
}

void mapped_region::require_none_left_behind(const char* function, std::size_t offset,
                                             std::size_t bytes) const {
  const auto at = first_within(left_behind, offset, bytes);
  if (at != left_behind.end())
    throw std::invalid_argument{std::string{"region::"} + function + ": a chunk that moved is " +
                                "still mapped at offset " + std::to_string(at->first) +
                                " as well: end_move() there first"};
}

void mapped_region::restore(backing_map::iterator entry) noexcept {
  report_exceptions([&] {
    entry->second.map = map_unregistered(mapped_here(), entry->first, entry->second.chunk,
                                         entry->second.own_rights.get());
    wait_until(visible_if_mapped_now());
    // What it throws does not cost the bytes.
    add_to_registrar(entry->second.map, entry->second.chunk);
  });
  if (entry->second.map.empty()) {
    committed -= entry->second.bytes();
    addresses->refused().keep_chunk(entry->second.chunk);
    backings.erase(entry);
  }
}

void mapped_region::require_within(const char* function, std::size_t offset,
                                   std::size_t bytes) const {
  if (offset > max_bytes() || bytes > max_bytes() - offset)
    throw std::out_of_range{std::string{"region::"} + function + ": " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) +
                            " exceed the region of " + std::to_string(max_bytes()) + " bytes"};
}

}  // namespace hipvmm::detail
