// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/region/retirement.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include "support/devices.hpp"

namespace hipvmm::test {

/// The least that lets a peer read: hipMalloc knows no right to read alone.
inline access_right peer_right() {
  return on_fallback() ? access_right::read_write : access_right::read;
}

/// Takes the addresses at `end`, so that memory before it cannot grow in place. Nothing if that
/// does not depend on addresses.
inline address_reservation block_addresses_at(const void* end) {
  if (on_fallback()) return {};
  // Retired memory there must not go, and leave room, while the test runs.
  drain_retired_memory();
  return address_reservation{granule(), 0, const_cast<void*>(end)};
}

}  // namespace hipvmm::test
