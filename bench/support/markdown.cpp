// SPDX-License-Identifier: MIT
#include "markdown.hpp"

#include <cstdio>

namespace bench {

std::string digits(double value) {
  char text[32];
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.1 ? 2 : 4;
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string duration(double seconds) {
  if (seconds >= 1) return digits(seconds) + " s";
  if (seconds >= 1e-3) return digits(seconds * 1e3) + " ms";
  if (seconds >= 1e-6) return digits(seconds * 1e6) + " µs";
  return digits(seconds * 1e9) + " ns";
}

void write_line(std::ostream& out, const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) out << "| " << cell << ' ';
  out << "|\n";
}

void write_head(std::ostream& out, const std::vector<std::string>& titles) {
  write_line(out, titles);
  write_line(out, std::vector<std::string>(titles.size(), "---"));
}

void write_origin(std::ostream& out, const origin& origin) {
  out << origin.machine << "; " << origin.provider << "; " << origin.date << ":\n\n    "
      << origin.command << "\n\n";
}

void write_bars(std::ostream& out, const std::vector<bar>& bars) {
  write_head(out, {"bar", "bound", "figure", ""});
  for (const bar& each : bars)
    write_line(out, {each.claim, each.bound, each.figure, to_text(each.result)});
}

}  // namespace bench
