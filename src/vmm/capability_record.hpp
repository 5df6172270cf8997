// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <hipvmm/vmm/capability.hpp>

namespace hipvmm {

inline constexpr std::size_t index_of(trait which) noexcept {
  return static_cast<std::size_t>(which);
}

/// How long a finding holds.
enum class standing {
  open,     ///< there is none: asked again, after a pause
  passing,  ///< for this process: an assumption, what a version lets expect, a doubtful measurement
  dated,    ///< kept on disk for a time: a probe was silent, perhaps as the machine was busy
  lasting,  ///< kept on disk
};

namespace detail {
/// The calendar's time, in seconds since 1970.
[[nodiscard]] std::int64_t seconds_now() noexcept;
}  // namespace detail

/// What capability hands out. Findings and numbers come from probes, a file or an assumption;
/// conclude() draws path, quirks and reasons for the fallback from them.
struct capability::record {
  std::array<finding, trait_count> findings{};
  std::array<std::string, trait_count> reasons;
  std::array<standing, trait_count> standings{};
  std::array<std::int64_t, trait_count> until{};  // of dated ones, as seconds_now()
  std::size_t minimum_granularity = 0;
  std::size_t recommended_granularity = 0;
  int descriptors_per_chunk = -1;
  std::chrono::nanoseconds settle_time{0};
  call_costs costs{};
  std::string subject;
  std::string origin;
  bool from_named_file = false;  // by HIPVMM_CAPABILITY, so none of it is kept on disk

  memory_path path = memory_path::vmm;
  std::vector<quirk> quirks;
  std::string why_fallback;

  void set(trait which, finding what, std::string reason, standing holds);
  /// As set, for what holds until then.
  void set_until(trait which, finding what, std::string reason, std::int64_t seconds);
  [[nodiscard]] bool has(trait which) const noexcept;
  /// Whether probes have still to find something out. Without virtual memory nothing else matters.
  [[nodiscard]] bool is_open() const noexcept;
  void conclude();
};

}  // namespace hipvmm
