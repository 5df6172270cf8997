// SPDX-License-Identifier: MIT
#include "growth_markdown.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>

#include <hipvmm/core/bytes.hpp>
#include "bench/support/markdown.hpp"

namespace bench {
namespace {

/// One column of a scenario's table: its cell is empty if a row has nothing to say.
struct column {
  std::string title;
  std::function<std::string(const measurement&)> cell;
};

template <typename Write>
auto of_samples(Write write) {
  return [write](const measurement& row) {
    return row.seconds.empty() ? std::string{} : write(row, summarize(row.seconds));
  };
}

template <typename Write>
auto of_steps(Write write) {
  return [write](const measurement& row) {
    const auto steps = summarize_steps(row);
    return steps && row.steps > 1 ? write(*steps) : std::string{};
  };
}

std::vector<column> columns_of(const std::string& baseline) {
  return {
      {"method", [](const measurement& row) { return row.method; }},
      {"samples", of_samples([](const measurement& row, const summary&) {
         return std::to_string(row.seconds.size());
       })},
      {"median",
       of_samples([](const measurement&, const summary& s) { return duration(s.median); })},
      {"fastest", of_samples([](const measurement&, const summary& s) { return duration(s.min); })},
      {"slowest", of_samples([](const measurement&, const summary& s) { return duration(s.max); })},
      {"beside " + baseline,
       [](const measurement& row) { return row.ratio ? digits(*row.ratio) : ""; }},
      {"in pairs",
       [](const measurement& row) {
         if (row.pairs.empty()) return std::string{};
         const summary s = summarize(row.pairs);
         return digits(s.median) + " (" + digits(s.lower_quartile) + " to " +
                digits(s.upper_quartile) + ")";
       }},
      {"for each step", of_samples([](const measurement& row, const summary& s) {
         return row.steps > 1 ? duration(s.median / static_cast<double>(row.steps)) : "";
       })},
      {"median step", of_steps([](const step_summary& s) { return duration(s.median.median); })},
      {"worst step", of_steps([](const step_summary& s) { return duration(s.worst.median); })},
      {"peak memory",
       [](const measurement& row) {
         return row.peak_bytes ? hipvmm::format_bytes(*row.peak_bytes) : std::string{};
       }},
      {"beside final size",
       [](const measurement& row) {
         char text[32] = "";
         if (row.peak_bytes)
           std::snprintf(text, sizeof text, "%.4f",
                         static_cast<double>(*row.peak_bytes) / static_cast<double>(row.bytes));
         return std::string{text};
       }},
      {"reached",
       [](const measurement& row) {
         return row.share ? hipvmm::format_bytes(row.bytes) : std::string{};
       }},
      {"of the free memory",
       [](const measurement& row) {
         return row.share ? digits(*row.share * 100) + " %" : std::string{};
       }},
      {"bandwidth",
       [](const measurement& row) {
         return row.gigabytes_per_second ? digits(*row.gigabytes_per_second) + " GB/s" : "";
       }},
      {"best bandwidth",
       [](const measurement& row) {
         return row.best_gigabytes_per_second ? digits(*row.best_gigabytes_per_second) + " GB/s"
                                              : "";
       }},
      {"note", [](const measurement& row) { return row.note; }}};
}

/// Only the columns that any of the rows fills.
void write_table(std::ofstream& out, const std::vector<measurement>& rows) {
  std::vector<column> columns = columns_of(rows.front().method);
  std::erase_if(columns, [&](const column& each) {
    return std::all_of(rows.begin(), rows.end(),
                       [&](const measurement& row) { return each.cell(row).empty(); });
  });
  const measurement& first = rows.front();
  out << "\n**" << first.scenario << "**";
  if (!first.share) out << ", " << hipvmm::format_bytes(first.bytes);
  if (first.steps > 1) out << ", " << first.steps << " steps";
  out << ":\n\n";
  std::vector<std::string> cells;
  for (const column& each : columns) cells.push_back(each.title);
  write_head(out, cells);
  for (const measurement& row : rows) {
    cells.clear();
    for (const column& each : columns) cells.push_back(each.cell(row));
    write_line(out, cells);
  }
}

}  // namespace

void write_markdown(const std::string& path, const origin& origin,
                    const std::vector<measurement>& rows, const std::vector<bar>& bars) {
  std::ofstream out{path};
  write_origin(out, origin);
  write_bars(out, bars);
  for (auto start = rows.begin(); start != rows.end();) {
    const auto end = std::find_if(
        start, rows.end(), [&](const measurement& row) { return row.scenario != start->scenario; });
    write_table(out, {start, end});
    start = end;
  }
  require_written(out, path);
}

}  // namespace bench
