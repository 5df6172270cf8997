// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

inline constexpr std::size_t index_of(trait which) noexcept {
  return static_cast<std::size_t>(which);
}

enum class persistence {
  open,     ///< probed again after reprobe_interval
  passing,  ///< for this process: assumed, by version, or a doubtful measurement
  dated,    ///< kept on disk for a time: a probe was silent, perhaps because of load
  lasting,  ///< kept on disk
};

namespace detail {
[[nodiscard]] std::int64_t seconds_now() noexcept;  ///< since 1970

/// In seconds. A dated finding that holds longer was written by a clock that ran ahead.
inline constexpr std::int64_t longest_dated = 24 * 3600;

/// Open traits are probed again only after this time: a probe may cost a process, and a program may
/// make many regions while memory is short. Tests shorten it.
inline std::atomic<std::chrono::seconds> reprobe_interval{std::chrono::minutes{1}};
}  // namespace detail

/// 2 MiB if HIP reported none.
[[nodiscard]] inline allocation_granularity unit_of(const capability& found) noexcept {
  const std::size_t minimum = found.minimum_granularity();
  if (minimum == 0) return {2 * MiB, 2 * MiB};
  return {minimum, found.recommended_granularity()};
}

/// conclude() derives path, quirks and why_fallback from the rest.
struct capability::record {
  std::array<finding, trait_count> findings{};
  std::array<std::string, trait_count> reasons;
  std::array<persistence, trait_count> persistences{};
  std::array<std::int64_t, trait_count> until{};  // of dated findings
  std::size_t minimum_granularity = 0;
  std::size_t recommended_granularity = 0;
  int descriptors_per_chunk = -1;
  std::chrono::nanoseconds visibility_delay{0};
  call_costs costs{};
  std::string fingerprint;
  std::string origin;
  bool from_named_file = false;  // HIPVMM_CAPABILITY's: nothing of it is kept on disk

  memory_path path = memory_path::vmm;
  std::vector<quirk> quirks;
  std::string why_fallback;

  void set(trait which, finding what, std::string reason, persistence holds);
  void set_until(trait which, finding what, std::string reason, std::int64_t seconds);
  [[nodiscard]] bool has(trait which) const noexcept;
  /// Whether probes still have to find something out. Without virtual memory nothing else matters.
  [[nodiscard]] bool is_open() const noexcept;
  void conclude();
};

}  // namespace hipvmm
