// SPDX-License-Identifier: MIT
#include "vmm_model.hpp"

#include <algorithm>
#include <bit>

namespace hipvmm::test::model {
namespace {

constexpr int device_location = hipMemLocationTypeDevice;
// More than any machine has: an alignment beyond it cannot be had.
constexpr std::size_t all_addresses = std::size_t{1} << 47U;

}  // namespace

bool exists(int device) { return device >= 0 && device < device_count; }

bool reaches(int user, int owner) {
  const int low = std::min(user, owner);
  const int high = std::max(user, owner);
  return low == high || (low == 0 && high == 1) || (low == 1 && high == 2);
}

void verdict::require(bool holds, const char* rule, hipError_t otherwise) {
  if (!holds) broken_.push_back({rule, otherwise});
}

void verdict::hide_failure() {
  for (broken_rule& each : broken_) each.code = hipSuccess;
}

bool verdict::allows(hipError_t given) const {
  if (broken_.empty()) return given == hipSuccess;
  return std::any_of(broken_.begin(), broken_.end(),
                     [given](const broken_rule& each) { return each.code == given; });
}

std::string verdict::text() const {
  if (broken_.empty()) return "success";
  std::string text;
  for (const broken_rule& each : broken_) {
    text.append(text.empty() ? "" : ", or ");
    text.append(hipGetErrorName(each.code)).append(" for want of '").append(each.rule).append("'");
  }
  return text;
}

bool vmm_model::whole_granules(std::size_t bytes) const {
  return bytes != 0 && bytes % machine_.granularity == 0;
}

// -- hipMemAddressReserve, hipMemAddressFree -----------------------------------------------------

verdict vmm_model::reserve(bool result, std::size_t bytes, std::size_t alignment,
                           unsigned long long flags, address wish) const {
  verdict judged;
  std::size_t taken = 0;
  for (const auto& [start, each] : reservations_) taken += each.bytes;
  judged.require(result, "a result");
  judged.require(flags == 0, "flags 0");
  if (!rules_.has_virtual_memory) {
    judged.require(wish == 0, "no wish", hipErrorOutOfMemory);
    if (judged.takes_effect()) judged.require(false, "virtual memory management", hipSuccess);
    return judged;
  }
  judged.require(whole_granules(bytes), "whole granules", rules_.reserve_bad_size);
  judged.require(alignment == 0 || std::has_single_bit(alignment), "alignment 0 or a power of two",
                 rules_.reserve_bad_size);
  judged.require(bytes <= machine_.address_space - taken, "within the address space",
                 hipErrorOutOfMemory);
  judged.require(!rules_.reserve_honours_alignment || alignment < all_addresses,
                 "an alignment that an address can have", hipErrorOutOfMemory);
  return judged;
}

void vmm_model::reserved(address start, std::size_t bytes) {
  reservations_.insert({start, {bytes}});
}

verdict vmm_model::free_addresses(address start, std::size_t bytes) const {
  verdict judged;
  const auto found = reservations_.find(start);
  judged.require(bytes != 0, "bytes");
  if (!rules_.has_virtual_memory) {
    judged.require(start != 0, "an address");
    if (judged.takes_effect()) judged.require(false, "virtual memory management", hipSuccess);
    return judged;
  }
  judged.require(is_reservation(start), "the start of a reservation");
  if (!is_reservation(start)) return judged;
  const std::size_t size = found->second.bytes;
  judged.require(!rules_.free_checks_size || bytes == size, "the whole size of a reservation");
  judged.require(!found->second.is_busy, "a reservation that is not busy",
                 rules_.free_while_mapped);
  judged.require(!has_mapping_inside(start, size), "nothing mapped", rules_.free_while_mapped);
  return judged;
}

bool vmm_model::has_mapping_inside(address start, std::size_t bytes) const {
  const auto inside = mappings_.lower_bound(start);
  return inside != mappings_.end() && inside->first - start < bytes;
}

bool vmm_model::is_reservation(address start) const {
  const auto found = reservations_.find(start);
  return found != reservations_.end() && !found->second.is_lost;
}

bool vmm_model::free_loses(address start) const {
  if (rules_.free_while_mapped != hipSuccess || !is_reservation(start)) return false;
  const reservation_state& found = reservations_.at(start);
  return found.is_busy || has_mapping_inside(start, found.bytes);
}

void vmm_model::addresses_freed(address start) {
  reservations_.erase(start);
  for (auto each = chunks_.begin(); each != chunks_.end();) {
    const auto next = std::next(each);
    each->second.held_by.erase(start);
    forget_if_dead(each->first);
    each = next;
  }
}

// -- hipMemCreate, hipMemRelease -----------------------------------------------------------------

/// The device that the memory is of; any number for that of the host.
int vmm_model::place_of(const create_arguments& wanted, int current_device) const {
  if (wanted.location_type != device_location) return 0;
  return rules_.creates_on_current_device ? current_device : wanted.device;
}

verdict vmm_model::create(const create_arguments& wanted, int current_device) const {
  verdict judged;
  judged.require(wanted.result, "a result");
  judged.require(wanted.properties, "properties");
  judged.require(wanted.flags == 0, "flags 0");
  judged.require(rules_.create_unit == 0
                     ? whole_granules(wanted.bytes)
                     : wanted.bytes != 0 && wanted.bytes % rules_.create_unit == 0,
                 "whole granules");
  const bool on_host = is_host_place(wanted.location_type, wanted.device);
  if (wanted.properties) {
    judged.require(wanted.type == hipMemAllocationTypePinned ||
                       (rules_.takes_uncached && wanted.type == hip_compat::uncached_allocation),
                   "a known type");
    judged.require(on_host || wanted.location_type == device_location, "a place for memory");
    judged.require(on_host || exists(wanted.device), "an existing device",
                   rules_.create_bad_device);
    judged.require(!on_host || rules_.host == model_rules::host_place::any_memory ||
                       wanted.handle_type == hipMemHandleTypeNone,
                   "host memory without descriptors");
    judged.require(wanted.handle_type == hipMemHandleTypeNone ||
                       (rules_.has_shareable_handles && wanted.handle_type == posix),
                   "handle type none or POSIX descriptor", hipErrorNotSupported);
  }
  const bool is_charged = !on_host && exists(wanted.device);
  const std::size_t room =
      is_charged ? machine_.device_bytes - used_bytes(place_of(wanted, current_device)) : SIZE_MAX;
  judged.require(wanted.bytes <= room, "within the device's memory", hipErrorOutOfMemory);
  return judged;
}

void vmm_model::created(handle made, const create_arguments& wanted, int current_device) {
  const told_properties told{wanted.type, wanted.location_type, wanted.device, wanted.handle_type};
  const int device = place_of(wanted, current_device);
  chunks_.insert({made, {wanted.bytes, device, wanted.handle_type == posix, false, 1, told}});
}

verdict vmm_model::release(handle of) const {
  verdict judged;
  judged.require(is_usable(of), "a handle with a reference left");
  return judged;
}

void vmm_model::released(handle of) {
  --chunks_.at(of).references;
  forget_if_dead(of);
}

void vmm_model::forget_if_dead(handle of) {
  const auto found = chunks_.find(of);
  if (found != chunks_.end() && !found->second.is_alive()) chunks_.erase(found);
}

// -- hipMemMap, hipMemUnmap ----------------------------------------------------------------------

verdict vmm_model::map(address at, std::size_t bytes, std::size_t offset, handle of,
                       unsigned long long flags) const {
  verdict arguments;
  arguments.require(at != 0, "an address");
  arguments.require(flags == 0, "flags 0");
  arguments.require(offset == 0, "offset 0");
  arguments.require(bytes != 0, "bytes");
  arguments.require(is_usable(of), "a handle with a reference left");
  if (!arguments.takes_effect()) return arguments;

  verdict judged;
  judged.require(whole_granules(bytes) && at % machine_.granularity == 0,
                 "whole granules on a granule");
  if (rules_.maps_whole_chunks) {
    judged.require(bytes == find(of)->bytes, "the chunk's size", hipErrorNotSupported);
  } else {
    judged.require(bytes <= find(of)->bytes, "at most the chunk's size");
  }
  const auto within = containing(reservations_, at);
  const bool inside =
      within != reservations_.end() && bytes <= within->second.bytes - (at - within->first);
  judged.require(inside, "inside one reservation");
  const auto next = mappings_.lower_bound(at);
  const bool is_free =
      mapping_at(at) == nullptr && (next == mappings_.end() || next->first - at >= bytes);
  judged.require(is_free, "nothing mapped there");
  if (rules_.map_hides_failure) judged.hide_failure();
  return judged;
}

void vmm_model::mapped(address at, std::size_t bytes, handle of) {
  mappings_.insert({at, {bytes, of}});
  ++chunks_.at(of).mappings;
}

bool vmm_model::are_whole_mappings(address at, std::size_t bytes) const {
  if (bytes == 0) return false;
  for (auto each = mappings_.find(at); each != mappings_.end(); ++each) {
    if (each->first != at || each->second.bytes > bytes) return false;
    at += each->second.bytes;
    bytes -= each->second.bytes;
    if (bytes == 0) return true;
  }
  return false;
}

bool vmm_model::holds_whole_mappings(address at, std::size_t bytes) const {
  const auto within = containing(reservations_, at);
  if (within == reservations_.end() || bytes > within->second.bytes - (at - within->first)) {
    return false;
  }
  if (mapping_at(at) != nullptr && !mappings_.contains(at)) return false;
  for (auto each = mappings_.lower_bound(at); each != mappings_.end() && each->first - at < bytes;
       ++each) {
    if (each->second.bytes > bytes - (each->first - at)) return false;
  }
  return true;
}

verdict vmm_model::unmap(address at, std::size_t bytes) const {
  verdict judged;
  if (!rules_.has_virtual_memory) {
    judged.require(at != 0, "an address");
    if (judged.takes_effect()) judged.require(false, "virtual memory management", hipSuccess);
    return judged;
  }
  judged.require(bytes != 0, "bytes");
  if (rules_.unmap_passes_holes) {
    judged.require(holds_whole_mappings(at, bytes), "whole mappings and holes of one reservation");
  } else if (rules_.unmap_checks_size) {
    judged.require(are_whole_mappings(at, bytes), "exactly whole mappings");
    const auto in = containing(reservations_, at);
    judged.require(rules_.copies_cross_reservations || in == reservations_.end() ||
                       bytes <= in->second.bytes - (at - in->first),
                   "one reservation");
  } else {
    judged.require(mappings_.contains(at), "the start of a mapping");
  }
  return judged;
}

bool vmm_model::unmap_loses(address at, std::size_t bytes) const {
  const auto first = mappings_.find(at);
  if (!rules_.unmap_of_several_keeps_reservation || first == mappings_.end()) return false;
  const auto next = std::next(first);
  return next != mappings_.end() && next->first == at + first->second.bytes &&
         bytes >= first->second.bytes && bytes - first->second.bytes >= next->second.bytes;
}

void vmm_model::unmapped(address at, std::size_t bytes) {
  if (rules_.unmap_passes_holes) return unmapped_with_holes(at, bytes);
  bool is_first = true;
  for (auto each = mappings_.find(at); each != mappings_.end() && bytes != 0; is_first = false) {
    // If sizes are not checked, the first goes whole, and a neighbour that is named in part stays.
    if (each->first != at || (!is_first && each->second.bytes > bytes)) break;
    const auto within = containing(reservations_, at);
    if (!is_first && rules_.unmap_of_several_keeps_reservation) within->second.is_busy = true;
    const handle of = each->second.of;
    at += each->second.bytes;
    bytes -= std::min(bytes, each->second.bytes);
    each = mappings_.erase(each);
    chunk& unused = chunks_.at(of);
    --unused.mappings;
    if (rules_.memory_stays_until_addresses_go) unused.held_by.insert(within->first);
    forget_if_dead(of);
  }
}

void vmm_model::unmapped_with_holes(address at, std::size_t bytes) {
  for (auto each = mappings_.lower_bound(at);
       each != mappings_.end() && each->first - at < bytes;) {
    const handle of = each->second.of;
    each = mappings_.erase(each);
    --chunks_.at(of).mappings;
    forget_if_dead(of);
  }
}

// -- facts to ask for ----------------------------------------------------------------------------

std::size_t vmm_model::used_bytes(int device) const {
  std::size_t bytes = 0;
  for (const auto& [of, each] : chunks_)
    if (each.device == device && !each.is_imported && !each.is_on_host()) bytes += each.bytes;
  for (const auto& [start, each] : areas_)
    if (each.kind == area_kind::device && each.device == device) bytes += each.bytes;
  return bytes;
}

object_counts vmm_model::counts() const {
  object_counts all{0, reservations_.size(), mappings_.size(), 0, 0};
  for (const auto& [of, each] : chunks_) {
    all.handles += static_cast<std::size_t>(each.references);
    // Its own, be it exported or not; descriptors that exports gave are the caller's.
    if (each.is_shareable || each.is_imported) ++all.descriptors;
  }
  for (const auto& [start, each] : areas_)
    if (each.kind == area_kind::device) ++all.allocations;
  return all;
}

const mapping* vmm_model::mapping_at(address at) const {
  const auto found = containing(mappings_, at);
  return found == mappings_.end() ? nullptr : &found->second;
}

const area* vmm_model::area_at(address at) const {
  const auto found = containing(areas_, at);
  return found == areas_.end() ? nullptr : &found->second;
}

const chunk* vmm_model::find(handle of) const {
  const auto found = chunks_.find(of);
  return found == chunks_.end() ? nullptr : &found->second;
}

bool vmm_model::is_usable(handle of) const {
  const chunk* const found = find(of);
  return found != nullptr && found->references > 0;
}

bool vmm_model::overlaps_anything(address start, std::size_t bytes) const {
  const auto overlaps = [&](const auto& entries) {
    const auto next = entries.lower_bound(start);
    return containing(entries, start) != entries.end() ||
           (next != entries.end() && next->first - start < bytes);
  };
  return overlaps(reservations_) || overlaps(areas_);
}

}  // namespace hipvmm::test::model
