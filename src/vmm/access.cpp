// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/access.hpp>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <optional>
#include <source_location>
#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "runtime/pointer_memory.hpp"
#include "vmm/access.hpp"

namespace hipvmm {

using detail::to_hip;

namespace {

/// Throws hip_error where `call`, about rights to [address, address + bytes), failed. `device` is
/// one of those whose rights they are.
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
  return std::lower_bound(
      entries.begin(), entries.end(), device,
      [](const access_desc& entry, device_ref wanted) { return entry.device < wanted; });
}

}  // namespace

access_map::access_map(device_ref owner) : owner_{owner} {
  entries_.push_back({owner, access_right::read_write});
}

void access_map::set(device_ref device, access_right right) {
  require_device(device);
  if (right != access_right::none && !device.can_access_peer(owner_))
    throw unsupported{"device " + std::to_string(device.ordinal()) +
                      " cannot reach the memory of device " + std::to_string(owner_.ordinal()) +
                      ": hipDeviceCanAccessPeer says there is no link between them"};
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

access_right access_map::get(device_ref device) const noexcept {
  const auto at = place_of(entries_, device);
  return at != entries_.end() && at->device == device ? at->right : access_right::none;
}

void access_map::apply(void* address, std::size_t bytes) const {
  detail::set_rights(address, bytes, *this, owner_, std::nullopt);
}

void detail::set_rights(void* address, std::size_t bytes, const access_map& rights,
                        device_ref owner, std::optional<device_ref> revoked) {
  // Peers first, the owner last: ROCm 7.14 corrupts the mapping when a peer is granted after the
  // owner (openxla/xla#46576). May go when no supported release does so.
  boost::container::small_vector<hipMemAccessDesc, 8> descs;
  if (revoked && *revoked != owner) descs.push_back(to_hip({*revoked, access_right::none}));
  for (const access_desc& entry : rights.entries())
    if (entry.device != owner) descs.push_back(to_hip(entry));
  if (const access_right own = rights.get(owner); own != access_right::none || revoked == owner)
    descs.push_back(to_hip({owner, own}));
  if (descs.empty()) return;
  check_rights(timed(memory_call::set_access,
                     [&] { return hipMemSetAccess(address, bytes, descs.data(), descs.size()); }),
               "hipMemSetAccess", address, bytes, owner);
}

void set_access(void* address, std::size_t bytes, access_desc desc) {
  const hipMemAccessDesc wanted = to_hip(desc);
  check_rights(detail::timed(detail::memory_call::set_access,
                             [&] { return hipMemSetAccess(address, bytes, &wanted, 1); }),
               "hipMemSetAccess", address, bytes, desc.device);
}

access_right get_access(const void* address, device_ref device) {
  unsigned long long flags = 0;
  check_rights(detail::query_access(address, device, flags), "hipMemGetAccess", address, 1, device);
  return detail::to_right(flags);
}

}  // namespace hipvmm
