// SPDX-License-Identifier: MIT
#include "operation_generator.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace hipvmm::test::model {
namespace {

struct share {
  kind what;
  std::size_t weight;
};

// Mostly mapping, access and copies; the other calls supply their objects.
constexpr std::array shares{share{kind::reserve, 6},
                            share{kind::address_free, 4},
                            share{kind::create, 8},
                            share{kind::release, 6},
                            share{kind::map, 14},
                            share{kind::unmap, 8},
                            share{kind::set_access, 16},
                            share{kind::get_access, 5},
                            share{kind::retain, 3},
                            share{kind::properties, 2},
                            share{kind::export_handle, 3},
                            share{kind::import_handle, 3},
                            share{kind::close_descriptor, 1},
                            share{kind::allocate, 2},
                            share{kind::free_allocation, 2},
                            share{kind::enable_peer, 2},
                            share{kind::disable_peer, 2},
                            share{kind::copy, 14},
                            share{kind::peer_copy, 5},
                            share{kind::fill, 10},
                            share{kind::fill_behind_change, 4}};
constexpr std::size_t all_weights =
    std::accumulate(shares.begin(), shares.end(), std::size_t{0},
                    [](std::size_t sum, const share& each) { return sum + each.weight; });

bool has_host(const lockstep& state) {
  return state.model().rules().host != model_rules::host_place::none;
}

}  // namespace

operation operation_generator::next(const lockstep& state) {
  for (;;) {
    std::size_t drawn = below(all_weights);
    const auto* chosen = shares.begin();
    for (; drawn >= chosen->weight; ++chosen) drawn -= chosen->weight;
    operation each = plausible(chosen->what, state);
    const std::size_t faults = one_in(4) ? 1 + below(3) : 0;
    for (std::size_t i = 0; i < faults; ++i) spoil(each, state);
    // Few of them: with nothing left to reserve there is nothing left to map.
    if (state.loses_addresses(each) && (reach_ == reach::own_objects || !one_in(24))) continue;
    if (is_within_reach(each, state)) return each;
  }
}

operation operation_generator::plausible(kind what, const lockstep& state) {
  const std::size_t granule = state.model().of().granularity;
  operation each;
  each.what = what;
  each.device = static_cast<int>(below(device_count));
  switch (what) {
    case kind::reserve:
      return reserving(state);
    case kind::address_free: {
      std::uint8_t slot = some_reservation(state);
      for (int attempt = 0; attempt < 4; ++attempt) {
        const slot_values::range& chosen = state.slots().reservations[slot];
        if (state.model().free_addresses(chosen.start, chosen.bytes).takes_effect()) break;
        slot = some_reservation(state);
      }
      each.at = {space::reservation, slot, 0};
      each.bytes = state.slots().reservations[slot].bytes;
      break;
    }
    case kind::create:
      each.slot = static_cast<std::uint8_t>(below(handle_slots));
      each.bytes = granule * (1 + below(one_in(8) ? 40 : 5));
      each.type = one_in(24) ? hip_compat::uncached_allocation : hipMemAllocationTypePinned;
      each.peer = static_cast<int>(below(device_count));
      if (has_host(state) && one_in(6)) each.location_type = some_host_location(state);
      each.handle_type = one_in(3) ? posix : hipMemHandleTypeNone;
      break;
    case kind::map:
      return mapping_one(state);
    case kind::unmap:
      aim_at_mappings(each, state, 3);
      break;
    case kind::set_access:
      return opening(state);
    case kind::get_access:
    case kind::retain: {
      const spot at = some_mapping(state);
      each.at = at.at;
      each.slot = static_cast<std::uint8_t>(below(handle_slots));
      break;
    }
    case kind::release:
    case kind::properties:
      each.slot = some_handle(state);
      break;
    case kind::export_handle:
      each.source = some_handle(state);
      each.slot = static_cast<std::uint8_t>(below(descriptor_slots));
      each.handle_type = posix;
      break;
    case kind::import_handle:
      each.source = static_cast<std::uint8_t>(below(descriptor_slots));
      each.slot = static_cast<std::uint8_t>(below(handle_slots));
      each.handle_type = posix;
      each.how = one_of({passed::as_value, passed::as_pointer});
      break;
    case kind::close_descriptor:
      each.slot = static_cast<std::uint8_t>(below(descriptor_slots));
      break;
    case kind::allocate:
      each.slot = static_cast<std::uint8_t>(below(allocation_slots));
      each.bytes = model_memory::page * below(4);
      break;
    case kind::free_allocation:
      each.at = {space::allocation, static_cast<std::uint8_t>(below(allocation_slots)), 0};
      break;
    case kind::enable_peer:
    case kind::disable_peer:
      each.peer = static_cast<int>(below(device_count));
      break;
    case kind::copy:
    case kind::peer_copy:
      return copying(what, state);
    case kind::fill:
    case kind::fill_behind_change:
      return filling(what, state);
  }
  return each;
}

operation operation_generator::reserving(const lockstep& state) {
  const slot_values& slots = state.slots();
  const std::size_t granule = state.model().of().granularity;
  operation each;
  each.what = kind::reserve;
  each.slot = static_cast<std::uint8_t>(below(reservation_slots));
  each.bytes = granule * (1 + below(12));
  each.offset = one_of<std::size_t>({0, 0, 0, 1, granule, 4 * granule, 16 * granule});
  if (one_in(2)) {
    // Behind or before another, or at the place of a former one: neighbours break ranges most
    // easily.
    const auto other = static_cast<std::uint8_t>(below(reservation_slots));
    each.at = {space::reservation, other, 0};
    if (one_in(2)) each.at.offset = slots.reservations[other].bytes;
    if (one_in(4)) each.at.offset = std::uint64_t{0} - each.bytes;
  }
  return each;
}

operation operation_generator::mapping_one(const lockstep& state) {
  const vmm_model& model = state.model();
  const std::size_t granule = model.of().granularity;
  operation each;
  each.what = kind::map;
  for (int attempt = 0; attempt < 6; ++attempt) {
    each.slot = some_handle(state);
    const chunk* const found = model.find(state.slots().handles[each.slot]);
    const std::size_t most = found == nullptr ? granule : found->bytes;
    // If sizes have a smaller unit than the granule, a chunk may be smaller than one.
    const std::size_t granules = std::max<std::size_t>(most / granule, 1);
    each.bytes = one_in(3) ? granule * (1 + below(granules)) : most;
    const std::uint8_t slot = some_reservation(state);
    const std::size_t room = state.slots().reservations[slot].bytes / granule;
    each.at = {space::reservation, slot, granule * below(std::max<std::size_t>(room, 1))};
    if (model
            .map(state.slots().resolve(each.at), each.bytes, 0, state.slots().handles[each.slot], 0)
            .takes_effect())
      break;
  }
  return each;
}

void operation_generator::aim_at_mappings(operation& each, const lockstep& state,
                                          std::size_t most) {
  const auto& mappings = state.model().mappings();
  const spot first = some_mapping(state);
  each.at = first.at;
  const address inside = state.slots().resolve(first.at);
  if (state.model().mapping_at(inside) == nullptr) {
    each.bytes = state.model().of().granularity;
    return;
  }
  auto next = std::prev(mappings.upper_bound(inside));
  each.at.offset -= inside - next->first;
  const std::size_t count = one_in(2) ? 1 : 1 + below(most);
  for (std::size_t i = 0; i < count && next != mappings.end(); ++i, ++next) {
    if (i != 0 && next->first != state.slots().resolve(each.at) + each.bytes) break;
    each.bytes += next->second.bytes;
  }
}

operation operation_generator::opening(const lockstep& state) {
  operation each;
  each.what = kind::set_access;
  aim_at_mappings(each, state, 4);
  each.entry_count = static_cast<std::uint8_t>(one_in(3) ? 1 + below(3) : 1);
  for (access_entry& entry : each.entries) {
    entry = {hipMemLocationTypeDevice, static_cast<int>(below(device_count)),
             one_of<int>({hipMemAccessFlagsProtNone, hipMemAccessFlagsProtRead,
                          hipMemAccessFlagsProtReadWrite, hipMemAccessFlagsProtReadWrite})};
    const mapping* const first = state.model().mapping_at(state.slots().resolve(each.at));
    if (first == nullptr || one_in(4)) continue;
    const int owner = state.model().find(first->of)->device;
    if (has_host(state) && one_in(6)) entry.location_type = some_host_location(state);
    while (!reaches(entry.device, owner)) entry.device = static_cast<int>(below(device_count));
  }
  return each;
}

operation operation_generator::copying(kind what, const lockstep& state) {
  operation each;
  each.what = what;
  const spot to = some_memory(state);
  spot from = some_memory(state);
  if (to.at.where == space::reservation && one_in(4)) {
    // A range and itself, moved by less than its length most often.
    from = to;
    from.at.offset += (one_in(2) ? 1 : 0 - std::uint64_t{1}) * below(to.bytes / 2 + 1);
  }
  each.at = to.at;
  each.from = from.at;
  each.bytes = some_bytes(std::min(to.bytes, from.bytes));
  each.device = to.device;
  each.peer = from.device;
  if (what == kind::copy && one_in(2)) each.device = from.device;
  each.by = one_of({variant::at_once, variant::on_stream, variant::by_direction});
  const auto is_host = [this](const place& at) {
    return at.where == space::pageable || (at.where == space::pinned && one_in(2));
  };
  const int from_device = is_host(from.at) ? 0 : 2;
  const int to_device = is_host(to.at) ? 0 : 1;
  each.type = one_in(3) ? static_cast<int>(hipMemcpyDefault) : from_device + to_device;
  return each;
}

operation operation_generator::filling(kind what, const lockstep& state) {
  operation each;
  each.what = what;
  const spot to = some_memory(state);
  each.at = to.at;
  each.device = to.device;
  each.value = static_cast<std::uint32_t>(random_());
  each.type = what == kind::fill ? one_of({1, 2, 4}) : 1;
  const auto width = static_cast<std::size_t>(each.type);
  each.bytes = some_bytes(to.bytes) / width;
  if (!one_in(4)) each.at.offset -= each.at.offset % width;
  each.by = one_of({variant::at_once, variant::on_stream});
  each.then = one_of({change::nothing, change::unmapped, change::closed, change::read_only});
  return each;
}

}  // namespace hipvmm::test::model
