// SPDX-License-Identifier: MIT
#include "vmm/device_work.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/device_wait.hpp"
#include "core/peer_copies.hpp"

namespace hipvmm::detail {
namespace {

/// Waits for one device. Returns false where a capture forbids that.
bool may_pass(device_ref device) noexcept {
  bool refused = false;
  report_exceptions([&] {
    try {
      wait_for_device(device);
    } catch (const hip_error& error) {
      if (error.code() != hipErrorStreamCaptureUnsupported) throw;
      refused = true;
    }
  });
  return !refused;
}

/// Calls `visit` for each device whose work may use the memory, as long as it returns true. Returns
/// whether it always did. Allocates nothing.
template <typename Visit>
bool visit_users(const access_map& rights, Visit visit) {
  for (const access_desc& entry : rights.entries())
    if (!visit(entry.device)) return false;
  for (auto other = next_copied_with(rights.owner(), -1); other;
       other = next_copied_with(rights.owner(), other->ordinal()))
    if (rights.get(*other) == access_right::none && !visit(*other)) return false;
  return true;
}

}  // namespace

device_list devices_of(const access_map& rights) {
  device_list result;
  visit_users(rights, [&](device_ref device) {
    result.push_back(device);
    return true;
  });
  return result;
}

std::optional<event> mark_in(stream_ref stream, const device_list& devices) {
  for (const device_ref device : devices) {
    try {
      event mark{device};
      mark.record(stream);
      return mark;
    } catch (const hip_error& error) {
      if (error.code() != hipErrorInvalidHandle) throw;
    }
  }
  return std::nullopt;
}

bool wait_for(const device_list& devices) noexcept {
  return std::all_of(devices.begin(), devices.end(), may_pass);
}

bool wait_for(const access_map& rights) noexcept { return visit_users(rights, may_pass); }

void wait_for_users(const access_map& rights) {
  visit_users(rights, [](device_ref device) {
    wait_for_device(device);
    return true;
  });
}

}  // namespace hipvmm::detail
