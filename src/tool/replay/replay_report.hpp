// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tool/replay/replay_job.hpp"
#include "tool/replay/replay_trace.hpp"

namespace hipvmm::tool {

struct replay_thresholds {
  std::optional<double> ratio = std::nullopt;  ///< peak physical by peak requested
  std::optional<double> pair_ns_p50 = std::nullopt;
  std::optional<double> pair_ns_p99 = std::nullopt;
  std::optional<double> driver_share = std::nullopt;  ///< time in the driver by recorded time
};

struct replay_report {
  const trace& recorded;
  std::string resource;
  std::string device;
  const replay_result& result;
  /// Most bytes that were filled of each block (--busy); nullopt: streams had no work.
  std::optional<std::size_t> busy_bytes = std::nullopt;
};

/// Peak physical by peak requested; 0 when nothing was requested.
[[nodiscard]] double ratio_of(const replay_result& result);
[[nodiscard]] double ratio_of(const replay_epoch& epoch);
/// Seconds in the driver by recorded seconds; none for a trace without duration.
[[nodiscard]] std::optional<double> driver_share_of(const replay_report& report);

[[nodiscard]] std::string text_of(const replay_report& report);
/// One line of JSON. docs/reference/replay.md has the keys.
[[nodiscard]] std::string json_of(const replay_report& report);
/// A sentence for each threshold that is missed, or has no measurement.
[[nodiscard]] std::vector<std::string> missed(const replay_report& report,
                                              const replay_thresholds& thresholds);

[[nodiscard]] std::string plural(std::size_t count, const char* noun);

/// Nanoseconds between two readings of the clock: a part of each measured call.
[[nodiscard]] std::uint64_t clock_ns();

}  // namespace hipvmm::tool
