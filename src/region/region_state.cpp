// SPDX-License-Identifier: MIT
#include "region/region_state.hpp"

#include <exception>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/error.hpp"
#include "region/retirement.hpp"
#include "runtime/runtime_rules.hpp"
#include "vmm/cached_chunks.hpp"
#include "vmm/chunk_cache.hpp"

namespace hipvmm::detail {
namespace {

/// Halves `wanted` until it fits.
template <typename Reserve>
address_reservation reserve_most(std::size_t wanted, std::size_t granularity, Reserve reserve) {
  for (std::size_t bytes = wanted;; bytes = align_up(bytes / 2, granularity)) {
    std::optional<address_reservation> made;
    if (attempt([&] { made.emplace(acquire_with_retry([&] { return reserve(bytes); })); },
                [&](const shortage&) { return bytes > granularity; }))
      return std::move(*made);
  }
}

address_reservation reserve_at(void* address, std::size_t bytes, device_ref device) {
  address_reservation made = acquire_with_retry([&] {
    return address_reservation{bytes, 0, address};
  });
  if (made.get() == address) {
    note_taken_aside(address, bytes);
    return made;
  }
  throw out_of_memory{shortage{
      .cause = exhausted::addresses,
      .device = device.ordinal(),
      .requested = bytes,
      .owner = "the addresses from " + address_text(address) + " on",
      .context = "others have some of these, or HIP ignores the address that it is asked for: "
                 "ask for them before other memory is made, or start the process again"}};
}

/// Granularities are powers of two: the greatest is a multiple of each.
std::size_t common_granularity(device_ref owner, const chunk_placement& placement) {
  std::size_t result = granularity_of(owner).minimum;
  for (const device_ref each : placement.devices())
    result = std::max(result, granularity_of(each).minimum);
  return result;
}

memory_strategy::record_list require_placement(device_ref owner, const capability& found,
                                               const region_options& chosen) {
  const chunk_placement& placement = chosen.placement;
  const std::vector<device_ref>& devices = placement.devices();
  memory_strategy::record_list known{{owner, found}};
  if (const std::optional<std::size_t> budget = placement.budget_bytes()) {
    const std::size_t unit = granularity_of(owner).minimum;
    if (*budget % unit != 0)
      throw std::invalid_argument{
          "region_options::placement: a budget of " + std::to_string(*budget) +
          " bytes; it must be a multiple of the granularity of device " +
          std::to_string(owner.ordinal()) + ", " + std::to_string(unit) + " bytes"};
  }
  if (!placement.is_striped()) return known;
  if (std::ranges::find(devices, owner) == devices.end())
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

}  // namespace

access_map region_state::rights_of(device_ref owner, const access_list& wanted,
                                   const chunk_placement& placement) {
  access_map result{owner, wanted};
  for (const device_ref each : placement.devices()) {
    result.add_owner(each);
    if (!wanted.find(each)) result.set(each, access_right::read_write);
  }
  return result;
}

void region_state::require_host_chunks(const char* what, const memory_strategy& devices,
                                       handle_type shareable, memory_location where) {
  (where.node() ? devices.host_node_chunks : devices.host_chunks).require(what);
  if (shareable != handle_type::none)
    throw unsupported{std::string{what} +
                      ": memory of the host cannot be shared with other processes: leave "
                      "region_options::shareable at none"};
}

std::unique_ptr<const memory_strategy> region_state::strategy_for(device_ref owner,
                                                                  const capability& found,
                                                                  const region_options& chosen) {
  auto made = std::make_unique<memory_strategy>(require_placement(owner, found, chosen));
  if (chosen.placement.budget_bytes()) {
    require_host_chunks("region_options::placement", *made, chosen.shareable,
                        chosen.placement.beyond_budget());
    if (chosen.memory == chunk_memory::uncached)
      throw unsupported{
          "region_options::memory: only devices make uncached chunks, and the placement spills to "
          "the host; use chunk_memory::standard, or a placement without spill"};
  }
  if (chosen.memory == chunk_memory::uncached)
    made->uncached_chunks.require("region_options::memory");
  return made;
}

chunk_place region_state::place_at(std::size_t offset,
                                   const backing_map* additions) const noexcept {
  std::size_t sum = 0;
  if (options.placement.budget_bytes()) {
    for (const backing_map* const each : {&backings, &prefetch.ready(), additions}) {
      if (each == nullptr) continue;
      for (const auto& [at, one] : *each)
        if (!one.chunk.empty() && one.chunk.location() == device) sum += one.chunk.bytes();
    }
  }
  return place_of(options.placement, device, placement_start + offset, sum);
}

physical_chunk region_state::acquire(memory_location where, std::size_t bytes,
                                     chunk_memory memory) const {
  if (!where.device()) return physical_chunk{where, bytes, device};
  return cache().acquire(*where.device(), bytes, options.shareable, memory);
}

physical_chunk region_state::take_pinned(memory_location where, std::size_t bytes,
                                         std::size_t most) const {
  if (!takes_pinned || !where.device() || !strategy->pins(*where.device()) ||
      options.memory != chunk_memory::standard)
    return {};
  // HIP would refuse rights to chunks of several sizes beside the hole in front.
  if (!strategy->rights.takes_any_mapping && !backings.empty() && backings.begin()->first != 0)
    return {};
  return cache_registry::of(cache(), *where.device()).take_pinned(bytes, most, options.shareable);
}

physical_chunk region_state::make_chunk(const address_range& range, std::size_t offset,
                                        std::size_t bytes, const chunk_place& place,
                                        std::size_t gap, bool is_last_gap) const {
  // Retired chunks may still be mapped behind the gap.
  const std::size_t room = is_last_gap && prefetch.ready().empty() && !shares_addresses()
                               ? std::min(range.longest_at(offset), place.bytes)
                               : bytes;
  physical_chunk kept = take_pinned(place.where, bytes, std::min(room, bytes + bytes / 8));
  if (!kept.empty()) return kept;
  const auto acquire_new = [&] { return acquire(place.where, bytes, options.memory); };
  idle_request asks;
  // A cache with limit 0 keeps only pinned chunks.
  if (place.where.device() && options.memory == chunk_memory::standard &&
      (cache().byte_limit() != 0 || strategy->pins(*place.where.device())))
    asks = {.taker = &cache(), .chunk_bytes = bytes, .shareable = options.shareable};
  if (bytes < gap && options.placement.is_one_device()) asks.bytes = not_cached(place.where, gap);
  static_cast<void>(attempt([&] { kept = acquire_with_retry(acquire_new, asks); },
                            [&](const shortage&) {
                              kept = take_pinned(place.where, bytes, room);
                              return !kept.empty();
                            }));
  return kept;
}

address_reservation region_state::reserve(std::size_t bytes) const {
  return strategy->pins_memory || options.tag ? reserve_private_range(bytes)
                                              : address_reservation{bytes};
}

std::shared_ptr<address_range> region_state::make_range(address_reservation reserved) const {
  auto made = address_range::make(std::move(reserved));
  for (const auto& [owner, record] : strategy->owners())
    if (strategy->unmaps_runs(owner)) made->note_unmaps_many(owner);
  return made;
}

region_state::region_state(device_ref owner, std::size_t max_bytes, const region_options& chosen,
                           const capability& found, void* at)
    : device{owner},
      strategy{strategy_for(owner, found, chosen)},
      granularity{common_granularity(owner, chosen.placement)},
      rights{rights_of(owner, chosen.access, chosen.placement)},
      users{users_of(rights)},
      options{chosen},
      addresses{make_range(
          at != nullptr ? reserve_at(at, max_bytes, device)
                        : reserve_most(align_up(max_bytes, granularity), granularity,
                                       [this](std::size_t bytes) { return reserve(bytes); }))} {}

region_state::~region_state() {
  membership.end();
  prefetch.cancel_or_wait();
  backings.merge(old_mappings);
  if (!sleep.resumed_backings().empty()) static_cast<void>(wait_past_captures(users));
  backings.merge(sleep.resumed_backings());
  const bool was_used = may_pin_memory || !backings.empty();
  merge(prefetch.ready());
  if (!addresses) return;
  unmap_all(backings, *addresses);
  if (was_used && !await_records()) addresses->mark_in_use();
  recycle_all(backings, std::move(addresses), cache());
}

// A free waits for HIP's thread that drops finished commands (address_reservation.cpp). So a wait
// for the devices finishes the commands first.
bool region_state::frees_late_records() noexcept {
  static const bool late = [] {
    bool found = true;
    report_exceptions([&] { found = rules_of_runtime().wait_before_address_free; });
    return found;
  }();
  return late;
}

bool region_state::await_records() const noexcept {
  return !frees_late_records() || wait_past_captures(users);
}

void region_state::merge(backing_map& additions) noexcept {
  for (auto& entry : additions) {
    committed += entry.second.bytes();
    entry.second.serial = next_serial();
  }
  backings.merge(additions);
}

void region_state::require_none_left_behind(const char* function, std::size_t offset,
                                            std::size_t bytes) const {
  const auto found = backings_within(old_mappings, offset, bytes);
  if (!found.empty())
    throw std::invalid_argument{std::string{"region::"} + function + ": a chunk that moved is " +
                                "still mapped at offset " + std::to_string(found.front().first) +
                                " as well: end_move() there first"};
}

void region_state::require_not_moving(const char* function, const backing& held) const {
  for (const auto& [from, left] : old_mappings)
    if (left.elsewhere == held.chunk.get()) require_none_left_behind(function, from, 1);
}

void region_state::require_free(const char* function, std::size_t offset, std::size_t bytes,
                                std::size_t from) const {
  require_none_left_behind(function, offset, bytes);
  if (offset < from || has_backing_within(backings, offset, bytes) ||
      addresses->longest_at(offset) < bytes)
    throw std::invalid_argument{std::string{"region::"} + function + ": the " +
                                format_bytes(bytes) + " at offset " + std::to_string(offset) +
                                " are partly backed already, or lie in two reservations"};
}

void region_state::refuse_cut(const char* function, std::size_t offset, std::size_t bytes,
                              const backing_map::value_type& chunk) {
  throw std::invalid_argument{
      std::string{"region::"} + function + ": the " + std::to_string(bytes) +
      " bytes from offset " + std::to_string(offset) + " cut the chunk from offset " +
      std::to_string(chunk.first) + " to " + std::to_string(chunk.first + chunk.second.bytes()) +
      ": name whole chunks, see chunks()"};
}

void region_state::restore_lost() noexcept {
  is_torn = true;
  report_exceptions([this] { map_again(); });
}

// Maps all before it sets rights, because HIP may refuse rights beside a hole. Both in the order of
// addresses, because rights may depend on the mappings in front.
void region_state::map_lost(const std::vector<backing_map::iterator>& lost) {
  std::exception_ptr first_refusal;
  const auto for_each_lost = [&](auto step) {
    for (const auto& at : lost) {
      backing& held = at->second;
      try {
        step(at->first, held);
      } catch (...) {
        if (!first_refusal) first_refusal = std::current_exception();
        addresses->refused().unmap_or_defer(held.map, held.chunk.get());
      }
    }
  };
  for_each_lost([this](std::size_t offset, backing& held) {
    const device_ref owner = held.chunk.device();
    held.map = addresses->map(offset, held.chunk, strategy->mapping_check, strategy->pins(owner));
  });
  for_each_lost([this](std::size_t offset, const backing& held) {
    if (!held.map.empty())
      set_first_rights(mapped_here(), offset, held.bytes(), held.chunk.device(),
                       held.own_rights.get());
  });
  wait_until(visible_if_mapped_now());
  // If the registrar throws, the mappings stay.
  for (const auto& at : lost)
    if (options.registrar && !at->second.map.empty())
      report_exceptions([&] { at->second.map.register_with(options.registrar, at->second.chunk); });
  if (first_refusal) std::rethrow_exception(first_refusal);
}

void region_state::map_again() {
  if (!is_torn) return;
  try {
    std::vector<backing_map::iterator> lost;
    for (auto at = backings.begin(); at != backings.end(); ++at)
      if (at->second.map.empty()) lost.push_back(at);
    map_lost(lost);
    is_torn = false;
  } catch (...) {
    std::size_t bytes = 0;
    for (const auto& each : backings)
      if (each.second.map.empty()) bytes += each.second.bytes();
    throw_with_context(format_bytes(bytes) + " of " + text() +
                       " were unmapped by a call that failed and cannot be mapped again yet; their "
                       "chunks keep the contents: free memory, and call again");
  }
}

void region_state::require_within(const char* function, std::size_t offset,
                                  std::size_t bytes) const {
  if (offset > max_bytes() || bytes > max_bytes() - offset)
    throw std::out_of_range{std::string{"region::"} + function + ": " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) +
                            " exceed the region of " + std::to_string(max_bytes()) + " bytes"};
}

}  // namespace hipvmm::detail
