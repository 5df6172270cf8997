// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include <hipvmm/mr/vmm_pool_resource.hpp>

namespace hipvmm::mr {

/// Why a pool in this state refuses `bytes`, and what to do: continues an out_of_memory.
[[nodiscard]] std::string shortage_of(const pool_statistics& now, std::size_t bytes,
                                      std::size_t maximum);
/// All numbers, at most 25 lines.
[[nodiscard]] std::string report_of(const pool_statistics& now, device_ref device,
                                    std::size_t maximum);

}  // namespace hipvmm::mr
