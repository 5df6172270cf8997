// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tool/replay/replay_job.hpp"

namespace hipvmm::tool {

/// Samples of a picture: about as many as it has columns.
inline constexpr std::size_t timeline_windows = 1000;

/// Throws: std::runtime_error where gnuplot cannot be started: before a replay rather than after
/// it.
void require_gnuplot();

/// Draws what a replay requested and what the resource held, by gnuplot as SVG.
/// Throws: std::runtime_error when gnuplot fails.
[[nodiscard]] std::string draw_timeline(const std::string& title,
                                        const std::vector<replay_sample>& samples);

/// What gnuplot reads.
[[nodiscard]] std::string timeline_script(const std::string& title,
                                          const std::vector<replay_sample>& samples);

}  // namespace hipvmm::tool
