// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tool/replay/replay_job.hpp"

namespace hipvmm::tool {

/// Samples of a picture: about as many as it has columns.
inline constexpr std::size_t timeline_windows = 1000;

/// Throws: std::runtime_error if gnuplot cannot be started. Call it before the replay.
void require_gnuplot();

/// Draws requested and held memory of a replay as SVG by gnuplot, which never sees `title`: it has
/// a file's name, and texts may run commands. Throws: std::runtime_error if gnuplot fails.
[[nodiscard]] std::string draw_timeline(const std::string& title,
                                        const std::vector<replay_sample>& samples);

[[nodiscard]] std::string timeline_script(const std::vector<replay_sample>& samples);

[[nodiscard]] std::string with_title(std::string picture, const std::string& title);

}  // namespace hipvmm::tool
