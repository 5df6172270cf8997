// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace ingest {

/// A line on standard error that shows bytes so far and the rate, and with a known total a bar.
/// Shows nothing unless standard error is a terminal. Destruction wipes the line, so that whatever
/// is written next, an error too, stands alone.
class progress_bar {
 public:
  explicit progress_bar(std::optional<std::size_t> total_bytes);
  ~progress_bar();
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// Redraws, at most ten times a second.
  void update(std::size_t bytes);

 private:
  using clock = std::chrono::steady_clock;

  std::optional<std::size_t> total_bytes_;
  bool on_terminal_;
  clock::time_point start_ = clock::now();
  clock::time_point next_draw_ = start_;
};

}  // namespace ingest
