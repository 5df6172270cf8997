// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/core/device.hpp>

namespace bench {

// What growth costs without the library. The growing functions start from nothing, hold sizes[0]
// bytes after the first step, sizes[1] after the second and so on, give everything back and return
// the seconds that the steps took; setting up and giving back are not in them.

/// One chunk a step, made, mapped and opened to the device, in one reservation.
[[nodiscard]] double grow_by_raw_calls(hipvmm::device_ref device,
                                       const std::vector<std::size_t>& sizes);

/// A new allocation a step, to which all bytes are copied before the old one is freed. Between the
/// steps, and outside the time, the new bytes are written: what is copied is data.
[[nodiscard]] double grow_by_copy(hipvmm::device_ref device, const std::vector<std::size_t>& sizes);

/// Seconds to append `count` elements of `element_bytes` bytes one by one: one copy from the host
/// each, into memory that doubles by copying from `first_bytes` on whenever it is full.
[[nodiscard]] double append_one_by_one(hipvmm::device_ref device, const void* element,
                                       std::size_t element_bytes, std::size_t count,
                                       std::size_t first_bytes);

}  // namespace bench
