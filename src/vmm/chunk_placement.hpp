// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/vmm/chunk_placement.hpp>

namespace hipvmm::detail {

/// Each once, `owner` first.
[[nodiscard]] std::vector<device_ref> devices_of(const chunk_placement& placement,
                                                 device_ref owner);

struct chunk_place {
  memory_location where;
  std::size_t bytes;
};

/// `owner_bytes`: what the region holds of `owner`.
[[nodiscard]] chunk_place place_of(const chunk_placement& placement, device_ref owner,
                                   std::size_t offset, std::size_t owner_bytes) noexcept;

}  // namespace hipvmm::detail
