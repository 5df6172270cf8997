// SPDX-License-Identifier: MIT
#pragma once

#include <thread>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::test {

/// A chunk mapped in a reservation of its own, which its device may read and write.
struct mapped_chunk {
  physical_chunk chunk;
  address_reservation reservation;
  mapping map;

  explicit mapped_chunk(physical_chunk&& given)
      : chunk{std::move(given)}, reservation{chunk.bytes()}, map{reservation, 0, chunk} {
    set_access(map.get(), map.bytes(), {chunk.device(), access_right::read_write});
    // Regions do so for their users: no wait, unless new mappings are missed for a while.
    std::this_thread::sleep_for(capability_of(chunk.device()).visibility_delay());
  }
};

}  // namespace hipvmm::test
