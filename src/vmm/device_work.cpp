// SPDX-License-Identifier: MIT
#include "vmm/device_work.hpp"

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

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
  bool captured = false;
  for (const device_ref device : devices) {
    report_exceptions([&] {
      try {
        device.synchronize();
      } catch (const hip_error& error) {
        if (error.code() != hipErrorStreamCaptureUnsupported) throw;
        captured = true;
      }
    });
    if (captured) return false;
  }
  return true;
}

}  // namespace hipvmm::detail
