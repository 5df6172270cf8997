// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::mr {

/// Explains why a pool in this state refuses `bytes`, and what to do; appended to the text of an
/// out_of_memory. `total`: bytes of the device.
[[nodiscard]] std::string shortage_of(const pool_statistics& now, std::size_t bytes,
                                      std::size_t maximum, std::size_t total);
/// Formats all statistics, in at most 25 lines.
[[nodiscard]] std::string report_of(const pool_statistics& now, device_ref device,
                                    std::size_t maximum);

}  // namespace hipvmm::mr
