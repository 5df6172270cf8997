// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/vmm/chunk_placement.hpp>

namespace hipvmm::detail {

/// The devices on which chunks of a region of `owner` are made, each once, `owner` first.
[[nodiscard]] std::vector<device_ref> devices_of(const chunk_placement& placement,
                                                 device_ref owner);

/// The place of one new chunk, and the most bytes that it may have.
struct chunk_place {
  memory_location where;
  std::size_t bytes;
};

/// The place of the chunk that begins at `offset`, counted as the placement counts, in a region of
/// `owner` that holds `owner_bytes` of its device.
[[nodiscard]] chunk_place place_of(const chunk_placement& placement, device_ref owner,
                                   std::size_t offset, std::size_t owner_bytes) noexcept;

}  // namespace hipvmm::detail
