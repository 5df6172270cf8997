// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <hipvmm/vmm/capability.hpp>

namespace hipvmm {

/// What capability hands out. Findings and numbers come from probes, a file or an assumption;
/// conclude() draws path, quirks and reasons for the fallback from them.
struct capability::record {
  std::array<finding, trait_count> findings{};
  std::array<std::string, trait_count> reasons;
  std::size_t minimum_granularity = 0;
  std::size_t recommended_granularity = 0;
  int descriptors_per_chunk = -1;
  std::chrono::nanoseconds settle_time{0};
  call_costs costs{};
  std::string subject;
  std::string origin;

  memory_path path = memory_path::vmm;
  std::vector<quirk> quirks;
  std::string why_fallback;

  [[nodiscard]] bool has(trait which) const noexcept;
  void conclude();
};

}  // namespace hipvmm
