// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <hipvmm/region/region.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include "support/device_bytes.hpp"
#include "support/devices.hpp"

namespace hipvmm::test {

/// A region with free addresses right behind it, if this machine gives any.
inline std::optional<region> region_with_room(std::size_t max_bytes, std::size_t room,
                                              const region_options& options = {}) {
  std::vector<region> tried;
  for (int attempt = 0; attempt < 32; ++attempt) {
    // HIP usually takes addresses downwards: those that are freed here are behind the region.
    std::optional<address_reservation> placeholder{std::in_place, 4 * room};
    tried.emplace_back(first_device, max_bytes, options);
    placeholder.reset();
    void* const end = advance(tried.back().base(), max_bytes);
    if (address_reservation{room, 0, end}.get() == end) return std::move(tried.back());
  }
  return std::nullopt;
}

}  // namespace hipvmm::test
