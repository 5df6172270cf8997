// SPDX-License-Identifier: MIT
#include "ingest_progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include <hipvmm/core/bytes.hpp>

namespace ingest {
namespace {

constexpr std::size_t bar_cells = 24;
constexpr auto redraw_interval = std::chrono::milliseconds{100};
constexpr auto erase_line = "\r\033[K";

std::string bar(std::size_t bytes, std::size_t total) {
  const double part = std::min(static_cast<double>(bytes) / static_cast<double>(total), 1.0);
  const auto full = static_cast<std::size_t>(part * static_cast<double>(bar_cells));
  return "  [" + std::string(full, '#') + std::string(bar_cells - full, '.') + "] " +
         std::to_string(static_cast<int>(part * 100)) + " %";
}

}  // namespace

progress_bar::progress_bar(std::optional<std::size_t> total_bytes)
    : total_bytes_{total_bytes}, on_terminal_{::isatty(STDERR_FILENO) == 1} {}

progress_bar::~progress_bar() {
  if (on_terminal_) std::fputs(erase_line, stderr);
}

void progress_bar::update(std::size_t bytes) {
  const clock::time_point now = clock::now();
  if (!on_terminal_ || now < next_draw_) return;
  next_draw_ = now + redraw_interval;

  const double seconds = std::max(std::chrono::duration<double>(now - start_).count(), 1e-6);
  const auto rate = static_cast<std::size_t>(static_cast<double>(bytes) / seconds);
  std::string line = erase_line + hipvmm::format_bytes(bytes) + " on the device, " +
                     hipvmm::format_bytes(rate) + "/s";
  // Files of /proc call themselves regular and empty, and a file may grow while it is read.
  if (total_bytes_ && *total_bytes_ >= bytes) line += bar(bytes, *total_bytes_);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace ingest
