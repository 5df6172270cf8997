// SPDX-License-Identifier: MIT
#include "src/base/report.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

#include "src/base/knobs.hpp"

namespace stand_in {
namespace {

std::atomic<std::uint64_t> reports{0};

// One write: lines of threads and processes are not mixed.
void write_line(const std::string& line) {
  const std::string whole = "rocr_stand_in: " + line + "\n";
  std::size_t done = 0;
  while (done < whole.size()) {
    const ssize_t wrote = ::write(STDERR_FILENO, whole.data() + done, whole.size() - done);
    if (wrote <= 0) return;
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace

void log(const char* format, ...) {
  if (!knobs().log) return;
  char line[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  write_line(line);
}

void note(const std::string& line) { write_line(line); }

void report(const std::string& what, const std::function<bool()>& is_taken) {
  reports.fetch_add(1);
  write_line("REPORT: " + what);
  const after_report next = knobs().reports;
  const bool asks = next == after_report::ask_handlers;
  if (next == after_report::stop || (asks && (!is_taken || !is_taken()))) std::abort();
}

void give_up(const std::string& why) {
  write_line(why);
  std::abort();
}

std::uint64_t report_count() { return reports.load(); }

}  // namespace stand_in
