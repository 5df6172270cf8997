// SPDX-License-Identifier: MIT
// Calls not made on AMD's runtime in lockstep, because the answer is not its own.
#include <algorithm>
#include <future>

#include "core/hip_compat.hpp"
#include "lockstep.hpp"
#include "provider_calls.hpp"

namespace hipvmm::test::model {

constexpr std::size_t most_compared = std::size_t{1} << 20U;  // of one hipMalloc, byte by byte

const char* text_of(exclusion why) {
  constexpr std::array<const char*, exclusions> texts{
      "made",
      "the runtime would crash or lose its state",
      "a change or a wait behind held streams",
      "hipMalloc of more than is compared in time",
      "an address where something of another owner can be",
      "the system places addresses",
      "a refused hipMemAddressFree drops the runtime's record",
      "a refused hipMemMap is reported as success",
      "hipFree of reserved addresses drops the runtime's record",
      "ROCr exports memory made for no handle type",
      "ROCr checks the size of an unmap",
      "ROCr grants the host",
      "ROCr allocates and grants memory of the host",
      "ROCr checks ends and flags of a grant",
      "the runtime adds sizes up in the order of heap addresses",
      "ROCr and the kernel driver check links",
      "peer access, and work by peers, grant mapped memory",
      "devices without a link, for which the runtime crashes or a GPU faults",
      "a GPU would fault",
      "ranges of a copy overlap, whose bytes the engine's order of work decides"};
  return texts[static_cast<std::size_t>(why)];
}

void lockstep::outlast_commands() {
  wait_for_devices();
  // The runtime's one thread for handlers drops them; the second function begins after it has.
  for (int turn = 0; turn < 2; ++turn) {
    std::promise<void> ran;
    must(hipStreamAddCallback(
             streams_[0],
             [](hipStream_t, hipError_t, void* promise) {
               static_cast<std::promise<void>*>(promise)->set_value();
             },
             &ran, 0),
         "hipStreamAddCallback");
    ran.get_future().wait();
  }
}

exclusion lockstep::exclusion_of(const operation& each) const {
  const address at = slots_.resolve(each.at);
  const bool is_copy = each.what == kind::copy || each.what == kind::peer_copy;
  if (is_foreign(each.at) || (is_copy && is_foreign(each.from))) return exclusion::foreign_memory;
  switch (each.what) {
    case kind::reserve:
      return is_placed(each) ? exclusion::none : exclusion::placement;
    case kind::address_free: {
      const auto found = model_.reservations().find(at);
      const bool is_refused = found != model_.reservations().end() &&
                              !model_.free_addresses(at, found->second.bytes).takes_effect();
      return is_refused ? exclusion::refused_free : exclusion::none;
    }
    case kind::create:
      return each.location_type == hip_compat::host_location ? exclusion::memory_of_host
                                                             : exclusion::none;
    case kind::map: {
      const verdict expected =
          model_.map(at, each.bytes, each.offset, handle_of(each.slot), each.flags);
      return !expected.takes_effect() && expected.allows(hipSuccess) ? exclusion::refused_map
                                                                     : exclusion::none;
    }
    case kind::unmap: {
      if (!model_.rules().has_virtual_memory) return exclusion::none;
      const bool is_mapping =
          model_.mappings().contains(at) && model_.mappings().at(at).bytes == each.bytes;
      const bool starts_inside =
          !model_.mappings().contains(at) && model_.mapping_at(at) != nullptr;
      return each.bytes != 0 && at != 0 &&
                     (starts_inside || (!model_.rules().unmap_checks_size && !is_mapping))
                 ? exclusion::unmap_size
                 : exclusion::none;
    }
    case kind::set_access:
      return exclusion_of_access(each);
    case kind::enable_peer:
      return model_.rules().peer_access_grants_mappings &&
                     model_.enable_peer(each.device, each.peer, static_cast<unsigned>(each.flags))
                         .takes_effect()
                 ? exclusion::peer_access
                 : exclusion::none;
    case kind::allocate:
      return each.bytes > most_compared ? exclusion::large : exclusion::none;
    case kind::free_allocation:
      return model_.is_reserved(at) ? exclusion::free_of_reserved : exclusion::none;
    case kind::export_handle: {
      const chunk* const of = model_.find(handle_of(each.source));
      return of != nullptr && each.handle_type != posix && each.handle_type == of->told.handle_type
                 ? exclusion::untyped_export
                 : exclusion::none;
    }
    case kind::copy:
    case kind::peer_copy:
    case kind::fill:
      return exclusion_of_work(each);
    case kind::fill_behind_change:
      if (each.then != change::nothing || waits_for_held_stream(each))
        return exclusion::held_streams;
      return exclusion_of_work(each);
    default:
      return exclusion::none;
  }
}

/// Under any state of the stream: at times it has not finished a command that it has run.
bool lockstep::waits_for_held_stream(const operation& each) const {
  const area* const in = model_.area_at(slots_.resolve(each.at));
  return model_.rules().fills_pinned_on_host && in != nullptr && in->kind == area_kind::pinned;
}

/// Slots of reservations always name addresses of the arena, because only sequences reserve there.
bool lockstep::is_foreign(const place& at) const {
  switch (at.where) {
    case space::allocation: {
      const slot_values::range& in = slots_.allocations[at.slot];
      return in.start != 0 && at.offset >= in.bytes;
    }
    case space::pinned:
    case space::pageable:
      return at.offset >= slots_.pinned.bytes;
    default:
      return false;
  }
}

bool lockstep::is_placed(const operation& each) const {
  if (!model_.rules().has_virtual_memory) return true;
  const address wish = slots_.resolve(each.at);
  if (!model_.reserve(each.has_result, each.bytes, each.offset, each.flags, wish).takes_effect())
    // How many addresses there are, and which alignments, the system decides.
    return each.bytes < model_.of().address_space;
  if (each.bytes > arena_step || each.offset > arena_step) return false;
  if (wish == 0) return true;
  return wish >= arena_start && wish < arena_end_ &&
         wish % std::max(model_.of().granularity, std::size_t{each.offset}) == 0 &&
         !model_.overlaps_anything(wish, each.bytes);
}

exclusion lockstep::exclusion_of_access(const operation& each) const {
  if (!model_.rules().has_virtual_memory) return exclusion::none;
  const auto has_entry = [&](auto&& is_such) {
    const auto count = std::min<std::size_t>(each.entry_count, each.entries.size());
    return std::any_of(each.entries.begin(),
                       each.entries.begin() + static_cast<std::ptrdiff_t>(count), is_such);
  };
  if (has_entry([](const access_entry& entry) {
        return entry.location_type == hip_compat::host_location;
      }))
    return exclusion::access_of_host;
  const address first = slots_.resolve(each.at);
  if (model_.rules().access_sums_from_first &&
      (has_unequal_mappings(first) || spans_several(first, each.bytes)))
    return exclusion::access_order;
  if (has_entry([&](const access_entry& entry) {
        return exists(entry.device) && lacks_link(first, each.bytes, entry.device);
      }))
    return exclusion::access_link;
  if (model_.rules().access_may_end_inside &&
      (each.bytes % model_.of().granularity != 0 || ends_inside(first, each.bytes) ||
       leaves_reservation(first, each.bytes) || has_entry([](const access_entry& entry) {
         return entry.flags != hipMemAccessFlagsProtNone &&
                entry.flags != hipMemAccessFlagsProtRead &&
                entry.flags != hipMemAccessFlagsProtReadWrite;
       })))
    return exclusion::access_range;
  return exclusion::none;
}

bool lockstep::leaves_reservation(address at, std::size_t bytes) const {
  const auto in = containing(model_.reservations(), at);
  return in != model_.reservations().end() && bytes > in->second.bytes - (at - in->first);
}

bool lockstep::ends_inside(address at, std::size_t bytes) const {
  const address last = at + bytes;
  const mapping* const cut = model_.mapping_at(last);
  return cut != nullptr && !model_.mappings().contains(last) && model_.mapping_at(at) != nullptr;
}

bool lockstep::spans_several(address at, std::size_t bytes) const {
  const mapping* const in = model_.mapping_at(at);
  return in != nullptr && bytes > in->bytes;
}

bool lockstep::has_unequal_mappings(address at) const {
  const auto in = containing(model_.reservations(), at);
  if (in == model_.reservations().end()) return false;
  const auto first = model_.mappings().lower_bound(in->first);
  for (auto each = first;
       each != model_.mappings().end() && each->first - in->first < in->second.bytes; ++each)
    if (each->second.bytes != first->second.bytes) return true;
  return false;
}

bool lockstep::lacks_link(address at, std::size_t bytes, int device) const {
  for (const auto& [start, each] : model_.mappings())
    if (start + each.bytes > at && start < at + bytes &&
        !reaches(device, model_.find(each.of)->device))
      return true;
  return false;
}

bool lockstep::is_mapped(address at, std::size_t bytes) const {
  return std::any_of(model_.mappings().begin(), model_.mappings().end(), [&](const auto& entry) {
    const auto& [start, mapped] = entry;
    return start + mapped.bytes > at && (start <= at || start - at < bytes);
  });
}

/// Which device does the work the release decides: each that may needs the rights and the links.
exclusion lockstep::exclusion_of_work(const operation& each) const {
  const std::size_t width = each.what == kind::fill ? static_cast<std::size_t>(each.type) : 1;
  const std::size_t bytes = model_.bytes_filled(each.bytes, width);
  std::vector<int> devices{each.device};
  const bool is_copy = each.what == kind::copy || each.what == kind::peer_copy;
  if (each.what == kind::peer_copy) devices.push_back(each.peer);
  const address to = slots_.resolve(each.at);
  const address from = slots_.resolve(each.from);
  for (const address side : {to, is_copy ? from : to}) {
    for (const auto& [start, mapped] : model_.mappings())
      if (start + mapped.bytes > side && (start <= side || start - side < bytes))
        for (const int device :
             {model_.find(mapped.of)->device, model_.find(mapped.of)->told.device})
          devices.push_back(device);
    const area* const in = model_.area_at(side);
    if (in != nullptr && in->kind != area_kind::pageable) devices.push_back(in->device);
  }
  const auto is_open = [&](address side, hipMemAccessFlags wanted) {
    return std::all_of(devices.begin(), devices.end(), [&](int device) {
      return exists(device) && model_.is_open(side, bytes, device, wanted);
    });
  };
  if (bytes == 0) return exclusion::none;
  if (is_copy && to - from + bytes - 1 < 2 * bytes - 1) return exclusion::overlap;
  const bool has_peers = std::any_of(devices.begin(), devices.end(),
                                     [&](int device) { return device != each.device; });
  if (model_.rules().peer_access_grants_mappings && has_peers &&
      (is_mapped(to, bytes) || (is_copy && is_mapped(from, bytes))))
    return exclusion::peer_access;
  // Peer access is not enabled by itself there.
  if (!model_.rules().has_virtual_memory && has_peers) return exclusion::fault;
  for (const int one : devices)
    for (const int other : devices)
      if (exists(one) && exists(other) && !reaches(one, other)) return exclusion::work_without_link;
  const bool is_allowed = is_open(to, hipMemAccessFlagsProtReadWrite) &&
                          (!is_copy || is_open(from, hipMemAccessFlagsProtRead));
  return is_allowed ? exclusion::none : exclusion::fault;
}

}  // namespace hipvmm::test::model
