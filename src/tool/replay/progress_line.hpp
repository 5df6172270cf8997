// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

namespace hipvmm::tool {

/// A line on standard error that is rewritten at most ten times a second. Nothing unless standard
/// error is a terminal. Destruction wipes the line, so that the next text, an error too, stands
/// alone.
class progress_line {
 public:
  progress_line();
  ~progress_line();
  progress_line& operator=(progress_line&&) = delete;

  /// Returns whether the line should be shown again: ask before making a text.
  [[nodiscard]] bool is_due() const;
  void show(const std::string& text);

 private:
  using clock = std::chrono::steady_clock;

  bool on_terminal_;
  clock::time_point next_ = clock::now();
};

/// A bar that is full by `part`, from 0 to 1, and the percentage.
[[nodiscard]] std::string progress_bar(double part);

}  // namespace hipvmm::tool
