// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::test {

/// Whether the process has a primary context of the device under the profile cuda-13: for the first
/// device always, for others once a call has made them current.
inline bool has_primary_context(device_ref device) {
  unsigned flags = 0;
  int active = -1;
  REQUIRE(hipDevicePrimaryCtxGetState(device.ordinal(), &flags, &active) == hipSuccess);
  return active != 0;
}

}  // namespace hipvmm::test
