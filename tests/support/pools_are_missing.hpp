// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include "support/devices.hpp"

namespace hipvmm::test {

/// Says that a case is skipped if the first device has no stream-ordered pools.
inline bool pools_are_missing() {
  if (first_device.supports_memory_pools()) return false;
  MESSAGE("skipped: device 0 offers no stream-ordered pools");
  return true;
}

}  // namespace hipvmm::test
