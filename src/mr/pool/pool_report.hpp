// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/runtime/device.hpp>
#include "mr/pool/allocator/placement.hpp"

namespace hipvmm::mr {

/// The most that a pool can hold.
struct pool_bounds {
  device_ref device;
  const char* kind;          ///< "vmm_pool_resource"
  const char* owner;         ///< the setting of `maximum`
  std::size_t maximum;       ///< bytes that it may hold
  std::size_t addresses;     ///< bytes of its addresses
  std::size_t most_aligned;  ///< bytes behind the first address with the request's alignment
  std::size_t total;         ///< bytes of the device, or the greatest number
  std::size_t free;          ///< bytes of the device
};

/// The cause of a refusal. `refused`: the backend's refusal, or null. Returns the first of these
/// that is true: alignment, limit (or the whole device, or all addresses), the backend's refusal of
/// new chunks, addresses, fragmentation.
[[nodiscard]] shortage shortage_of(const pool::request& request, const pool_statistics& now,
                                   const pool_bounds& bounds, std::size_t largest_place,
                                   const shortage* refused);
/// The memory that a pool holds and could still serve; appended to the text of an out_of_memory.
[[nodiscard]] std::string describe_pool(const pool_statistics& now, std::size_t maximum);
/// Formats all statistics, in at most 25 lines.
[[nodiscard]] std::string report_of(const pool_statistics& now, device_ref device,
                                    std::size_t maximum);

}  // namespace hipvmm::mr
