// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "tool/replay/progress_line.hpp"

namespace ingest {

/// Shows on a terminal the bytes so far and the rate, and with a known total a bar.
class progress_bar {
 public:
  explicit progress_bar(std::optional<std::size_t> total_bytes);

  /// Redraws, at most ten times a second.
  void update(std::size_t bytes);

 private:
  using clock = std::chrono::steady_clock;

  std::optional<std::size_t> total_bytes_;
  clock::time_point start_ = clock::now();
  hipvmm::tool::progress_line line_;
};

}  // namespace ingest
