// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tool/replay/replay_job.hpp"

namespace hipvmm::tool {

/// A picture of what a replay requested and what the resource held, drawn by gnuplot as SVG.
class replay_timeline {
 public:
  /// About as many as the picture has columns.
  static constexpr std::size_t windows = 1000;

  /// Creates the file, or opens one that is there and leaves it as it is until there is a picture.
  /// Throws: std::runtime_error when that fails or gnuplot cannot be started: before a replay
  /// rather than behind it.
  explicit replay_timeline(std::string path);
  ~replay_timeline();
  replay_timeline(const replay_timeline&) = delete;
  replay_timeline& operator=(const replay_timeline&) = delete;

  /// Throws: std::runtime_error when gnuplot fails.
  void draw(const std::string& title, const std::vector<replay_sample>& samples) const;

 private:
  std::string path_;
  int file_ = -1;
};

/// What gnuplot is told.
[[nodiscard]] std::string timeline_script(const std::string& title,
                                          const std::vector<replay_sample>& samples);

}  // namespace hipvmm::tool
