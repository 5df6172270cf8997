// SPDX-License-Identifier: MIT
#include "vmm/device_work.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/device_wait.hpp"

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

}  // namespace

device_list devices_of(const access_map& rights) {
  device_list result;
  for (const access_desc& entry : rights.entries()) result.push_back(entry.device);
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

bool wait_for(const access_map& rights) noexcept {
  return std::all_of(rights.entries().begin(), rights.entries().end(),
                     [](const access_desc& each) { return may_pass(each.device); });
}

}  // namespace hipvmm::detail
