// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

namespace hipvmm::tool {

/// A line on standard error that is rewritten at most ten times a second; nothing unless that is a
/// terminal. Destruction wipes the line, so that later text, an error too, stands alone.
class progress_line {
 public:
  progress_line();
  ~progress_line();
  progress_line& operator=(progress_line&&) = delete;

  /// Call it before making a text.
  [[nodiscard]] bool is_due() const;
  void show(const std::string& text);

 private:
  using clock = std::chrono::steady_clock;

  bool on_terminal_;
  clock::time_point next_ = clock::now();
};

/// `part` is from 0 to 1.
[[nodiscard]] std::string progress_bar(double part);

}  // namespace hipvmm::tool
