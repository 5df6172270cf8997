// SPDX-License-Identifier: MIT
#include "tool/replay/progress_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace hipvmm::tool {
namespace {

constexpr std::size_t bar_cells = 24;
constexpr auto redraw_interval = std::chrono::milliseconds{100};
constexpr auto erase_line = "\r\033[K";

}  // namespace

progress_line::progress_line() : on_terminal_{::isatty(STDERR_FILENO) == 1} {}

progress_line::~progress_line() {
  if (on_terminal_) std::fputs(erase_line, stderr);
}

bool progress_line::is_due() const { return on_terminal_ && clock::now() >= next_; }

void progress_line::show(const std::string& text) {
  if (!is_due()) return;
  next_ = clock::now() + redraw_interval;
  std::fputs((erase_line + text).c_str(), stderr);
  std::fflush(stderr);
}

std::string progress_bar(double part) {
  const double shown = std::clamp(part, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(shown * static_cast<double>(bar_cells));
  std::string bar{'['};
  bar.append(full, '#').append(bar_cells - full, '.').append("] ");
  return bar.append(std::to_string(static_cast<int>(shown * 100))).append(" %");
}

}  // namespace hipvmm::tool
