// SPDX-License-Identifier: MIT
#include "region/device_work.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/error.hpp"
#include "runtime/device.hpp"
#include "runtime/peer_copies.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::detail {
namespace {

/// Returns false if HIP refuses.
bool wait_for_one(device_ref device, bool& has_reported) noexcept {
  return report_exceptions([&] {
    try {
      device.synchronize();
      return true;
    } catch (const hip_error& error) {
      if (error.code() == hipErrorStreamCaptureUnsupported || has_reported) return false;
      has_reported = true;
      throw;
    }
  });
}

/// Calls `visit` for each device of devices_of(), some twice, until it returns false. Returns
/// whether it never did. Allocates nothing.
template <typename Visit>
bool visit_users(const memory_users& users, Visit visit) {
  const auto& with_right = users.devices;
  if (!std::ranges::all_of(with_right, visit)) return false;
  for (const device_ref owner : users.owners)
    for (auto other = next_copied_with(owner, -1); other;
         other = next_copied_with(owner, other->ordinal()))
      if (std::ranges::find(with_right, *other) == with_right.end() && !visit(*other)) return false;
  return true;
}

}  // namespace

void wait_before_grant(const memory_users& users) {
  if (rules_of_runtime().wait_before_grant && !waited_before_grant::is_set()) wait_for_users(users);
}

memory_users users_of(const access_map& rights) {
  memory_users result{{}, {rights.owner()}};
  for (const access_desc& entry : rights.entries()) result.devices.push_back(entry.device);
  result.owners.insert(result.owners.end(), rights.other_owners().begin(),
                       rights.other_owners().end());
  return result;
}

device_list devices_of(const memory_users& users) {
  device_list result;
  visit_users(users, [&](device_ref device) {
    if (std::ranges::find(result, device) == result.end()) result.push_back(device);
    return true;
  });
  return result;
}

std::optional<event> record_event_in(stream_ref stream, const device_list& devices) {
  for (const device_ref device : devices) {
    if (device != devices.front() && !has_context(device)) continue;  // it has no streams
    std::optional<event> mark;
    const auto record = [&] { mark.emplace(device).record(stream); };
    if (!refusal_of(hipErrorInvalidHandle, record)) return mark;
  }
  return std::nullopt;
}

bool wait_for(const device_list& devices, bool& has_reported) noexcept {
  return std::all_of(devices.begin(), devices.end(),
                     [&](device_ref device) { return wait_for_one(device, has_reported); });
}

bool wait_for(const memory_users& users, bool& has_reported) noexcept {
  return visit_users(users, [&](device_ref device) { return wait_for_one(device, has_reported); });
}

void wait_for_users(const memory_users& users) {
  visit_users(users, [](device_ref device) {
    device.synchronize();
    return true;
  });
}

}  // namespace hipvmm::detail
