// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/access.hpp>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/topology/peer_link.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "runtime/pointer_memory.hpp"
#include "vmm/access.hpp"

namespace hipvmm {

using detail::to_hip;

namespace {

void check_rights(hipError_t result, const char* call, const void* address, std::size_t bytes,
                  device_ref device, std::source_location where = std::source_location::current()) {
  if (result == hipSuccess) return;
  std::string text = "rights of device " + std::to_string(device.ordinal()) + " to " +
                     std::to_string(bytes) + " bytes at " + detail::address_text(address);
  if (const void* const bare = detail::first_without_memory(address, bytes))
    text += "; nothing is mapped at " + detail::address_text(bare) +
            ": map a chunk there first, or commit it in its region";
  detail::throw_failure(result, call, text, where);
}

auto place_of(const std::vector<access_desc>& entries, device_ref device) {
  return std::ranges::lower_bound(entries, device, std::less<>{}, &access_desc::device);
}

std::string link_text(device_ref device, device_ref owner) {
  try {
    const peer_link link = peer_link_between(device, owner);
    if (link.type == link_type::unknown) return "HIP reports no link between them";
    std::string text{"the link between them is " + std::string{name_of(link.type)}};
    if (link.hops) text += ", hops: " + std::to_string(*link.hops);
    return text;
  } catch (const hip_error&) {
    return "HIP does not say how they are connected";
  }
}

}  // namespace

access_list::access_list(std::initializer_list<access_desc> entries)
    : access_list{std::vector<access_desc>{entries}} {}

access_list::access_list(std::vector<access_desc> entries) {
  if (entries.empty()) return;
  std::ranges::sort(entries, std::less<>{}, &access_desc::device);
  const auto twice = std::ranges::adjacent_find(entries, {}, &access_desc::device);
  if (twice != entries.end())
    throw std::invalid_argument{"an access_list names device " +
                                std::to_string(twice->device.ordinal()) +
                                " twice: give each device one right"};
  entries_ = std::make_shared<const std::vector<access_desc>>(std::move(entries));
}

const std::vector<access_desc>& access_list::entries() const noexcept {
  static const std::vector<access_desc> none;
  return entries_ ? *entries_ : none;
}

std::optional<access_right> access_list::find(device_ref device) const noexcept {
  const auto at = place_of(entries(), device);
  if (at == entries().end() || at->device != device) return std::nullopt;
  return at->right;
}

access_list all_reachable_peers(device_ref owner, access_right right) {
  require_device(owner);
  std::vector<access_desc> peers;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref other{ordinal};
    if (other != owner && other.can_access_peer(owner)) peers.push_back({other, right});
  }
  return access_list{std::move(peers)};
}

void detail::require_reach(device_ref device, device_ref owner) {
  if (device.can_access_peer(owner)) return;
  throw unsupported{"device " + std::to_string(device.ordinal()) +
                    " cannot reach the memory of device " + std::to_string(owner.ordinal()) +
                    ": hipDeviceCanAccessPeer says no, and " + link_text(device, owner) +
                    "; copy instead, or grant devices of all_reachable_peers() only"};
}

access_map::access_map(device_ref owner) : owner_{owner} {
  entries_.push_back({owner, access_right::read_write});
}

access_map::access_map(device_ref owner, const access_list& wanted) : access_map{owner} {
  for (const access_desc& entry : wanted.entries()) set(entry.device, entry.right);
}

void access_map::set(device_ref device, access_right right) {
  require_device(device);
  if (right != access_right::none) {
    detail::require_reach(device, owner_);
    for (const device_ref each : other_owners_) detail::require_reach(device, each);
  }
  const auto at = entries_.begin() + (place_of(entries_, device) - entries_.cbegin());
  const bool known = at != entries_.end() && at->device == device;
  if (right == access_right::none) {
    if (known) entries_.erase(at);
  } else if (known) {
    at->right = right;
  } else {
    entries_.insert(at, {device, right});
  }
}

void access_map::add_owner(device_ref device) {
  require_device(device);
  if (device == owner_ || std::ranges::find(other_owners_, device) != other_owners_.end()) return;
  for (const access_desc& entry : entries_) detail::require_reach(entry.device, device);
  other_owners_.push_back(device);
}

void access_map::remove_owner(device_ref device) noexcept { std::erase(other_owners_, device); }

access_right access_map::get(device_ref device) const noexcept {
  const auto at = place_of(entries_, device);
  return at != entries_.end() && at->device == device ? at->right : access_right::none;
}

access_list access_map::list() const {
  std::vector<access_desc> entries = entries_;
  const auto add_unless_listed = [&](device_ref owner) {
    if (get(owner) == access_right::none) entries.push_back({owner, access_right::none});
  };
  add_unless_listed(owner_);
  for (const device_ref each : other_owners_) add_unless_listed(each);
  return access_list{std::move(entries)};
}

void access_map::apply(void* address, std::size_t bytes) const {
  detail::set_rights(address, bytes, *this, owner_);
}

void detail::set_rights(void* address, std::size_t bytes, const access_map& rights,
                        device_ref owner, const access_map* before) {
  // Peers first, the owner last: ROCm 7.14 corrupts the mapping if a peer is granted after the
  // owner (openxla/xla#46576). May go when no supported release does so.
  boost::container::small_vector<hipMemAccessDesc, 8> descs;
  const auto is_revoked = [&](device_ref device) {
    return before != nullptr && before->get(device) != access_right::none &&
           rights.get(device) == access_right::none;
  };
  if (before != nullptr)
    for (const access_desc& entry : before->entries())
      if (entry.device != owner && is_revoked(entry.device))
        descs.push_back(to_hip({entry.device, access_right::none}));
  for (const access_desc& entry : rights.entries())
    if (entry.device != owner) descs.push_back(to_hip(entry));
  if (const access_right own = rights.get(owner); own != access_right::none || is_revoked(owner))
    descs.push_back(to_hip({owner, own}));
  if (descs.empty()) return;
  check_rights(
      timed{memory_call::set_access}(hipMemSetAccess(address, bytes, descs.data(), descs.size())),
      "hipMemSetAccess", address, bytes, owner);
}

void set_access(void* address, std::size_t bytes, access_desc desc) {
  const hipMemAccessDesc wanted = to_hip(desc);
  const hipError_t result =
      detail::timed{detail::memory_call::set_access}(hipMemSetAccess(address, bytes, &wanted, 1));
  if (result == hipErrorInvalidDevice || result == hipErrorInvalidValue) {
    detail::clear_last_error();
    const std::optional<device_ref> owner = detail::device_of_memory(address);
    if (owner && desc.right != access_right::none) detail::require_reach(desc.device, *owner);
  }
  check_rights(result, "hipMemSetAccess", address, bytes, desc.device);
}

access_right get_access(const void* address, device_ref device) {
  unsigned long long flags = 0;
  check_rights(detail::query_access(address, device, flags), "hipMemGetAccess", address, 1, device);
  return detail::to_right(flags);
}

}  // namespace hipvmm
