// SPDX-License-Identifier: MIT
#include "trace_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "bench/support/markdown.hpp"
#include "trace_measure.hpp"

namespace bench {
namespace {

/// The figures in the order of their columns, with the digits that they are written with.
struct column {
  const char* name;
  int decimals;
};
constexpr std::array<column, 15> columns{{{figure::allocate_ms, 3},
                                          {figure::deallocate_ms, 3},
                                          {figure::allocate_p50, 0},
                                          {figure::allocate_p99, 0},
                                          {figure::allocate_longest, 0},
                                          {figure::deallocate_p50, 0},
                                          {figure::deallocate_p99, 0},
                                          {figure::deallocate_longest, 0},
                                          {figure::peak_requested, 0},
                                          {figure::peak_physical, 0},
                                          {figure::peak_ratio, 4},
                                          {figure::submitted_ms, 3},
                                          {figure::done_ms, 3},
                                          {figure::allocations, 0},
                                          {figure::streams, 0}}};

std::string decimal(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

/// Empty if there is none.
std::string figure_text(const measurement& row, const char* name, int decimals) {
  const auto found = row.figures.find(name);
  return found == row.figures.end() ? "" : decimal(found->second, decimals);
}

std::string milliseconds(double seconds) { return decimal(seconds * 1e3, 3); }

}  // namespace

void print_trace_table(const std::vector<measurement>& rows) {
  std::printf("%-28s %5s %-22s %10s %10s %10s %8s %10s %10s %12s %10s %10s %8s %10s\n", "trace",
              "epoch", "contender", "calls ms", "best", "worst", "x pool", "alloc p50", "alloc p99",
              "longest ns", "free p50", "free p99", "peak", "done ms");
  for (const measurement& row : rows) {
    std::printf("%-28s %5s %-22s", row.scenario.c_str(), figure_text(row, figure::epoch, 0).c_str(),
                row.method.c_str());
    if (!row.seconds.empty()) {
      const summary time = summarize(row.seconds);
      std::printf(" %10s %10s %10s %8s %10s %10s %12s %10s %10s %8s %10s",
                  milliseconds(time.median).c_str(), milliseconds(time.min).c_str(),
                  milliseconds(time.max).c_str(), row.ratio ? decimal(*row.ratio, 3).c_str() : "",
                  figure_text(row, figure::allocate_p50, 0).c_str(),
                  figure_text(row, figure::allocate_p99, 0).c_str(),
                  figure_text(row, figure::allocate_longest, 0).c_str(),
                  figure_text(row, figure::deallocate_p50, 0).c_str(),
                  figure_text(row, figure::deallocate_p99, 0).c_str(),
                  figure_text(row, figure::peak_ratio, 3).c_str(),
                  figure_text(row, figure::done_ms, 1).c_str());
    }
    std::printf("%s\n", row.note.empty() ? "" : (" (" + row.note + ")").c_str());
  }
}

void write_trace_csv(const std::string& path, const origin& origin,
                     const std::vector<measurement>& rows) {
  std::ofstream csv{path};
  csv << "date,machine,provider,command,trace,busy_bytes,epoch,contender,samples,calls_ms,"
         "calls_best_ms,calls_worst_ms,ratio_to_pool,pairs,paired_ratio,paired_ratio_lower_"
         "quartile,"
         "paired_ratio_upper_quartile";
  for (const column& each : columns) csv << ',' << each.name;
  csv << ",note\n";
  for (const measurement& row : rows) {
    csv << origin.date << ',' << quoted(origin.machine) << ',' << quoted(origin.provider) << ','
        << quoted(origin.command) << ',' << quoted(row.scenario) << ','
        << figure_text(row, figure::busy_bytes, 0) << ',' << figure_text(row, figure::epoch, 0)
        << ',' << quoted(row.method) << ',' << row.seconds.size() << ',';
    if (row.seconds.empty()) {
      csv << ",,,";
    } else {
      const summary time = summarize(row.seconds);
      csv << milliseconds(time.median) << ',' << milliseconds(time.min) << ','
          << milliseconds(time.max) << ',';
    }
    csv << (row.ratio ? decimal(*row.ratio, 4) : "") << ',' << row.pairs.size() << ',';
    if (row.pairs.empty()) {
      csv << ",,";
    } else {
      const summary paired = summarize(row.pairs);
      csv << decimal(paired.median, 4) << ',' << decimal(paired.lower_quartile, 4) << ','
          << decimal(paired.upper_quartile, 4);
    }
    for (const column& each : columns) csv << ',' << figure_text(row, each.name, each.decimals);
    csv << ',' << quoted(row.note) << '\n';
  }
  require_written(csv, path);
}

void write_trace_markdown(const std::string& path, const origin& origin,
                          const std::vector<measurement>& rows, const std::vector<bar>& bars) {
  std::ofstream out{path};
  write_origin(out, origin);
  write_bars(out, bars);
  std::string trace;
  for (const measurement& row : rows) {
    if (row.scenario != trace) {
      trace = row.scenario;
      out << "\n**" << trace << "**, medians:\n\n";
      write_head(out, {"contender", "epoch", "all calls, ms", "allocate 50 %, 99 %, longest, ns",
                       "deallocate 50 %, 99 %, ns", "peak physical / requested",
                       "until the GPU is done, ms"});
    }
    const std::string epoch = figure_text(row, figure::epoch, 0);
    if (row.seconds.empty()) {
      write_line(out, {row.method, epoch, row.note, "", "", "", ""});
      continue;
    }
    const auto text = [&row](const char* name) { return figure_text(row, name, 0); };
    write_line(out, {row.method, epoch, digits(summarize(row.seconds).median * 1e3),
                     text(figure::allocate_p50) + ", " + text(figure::allocate_p99) + ", " +
                         text(figure::allocate_longest),
                     text(figure::deallocate_p50) + ", " + text(figure::deallocate_p99),
                     figure_text(row, figure::peak_ratio, 3), text(figure::done_ms)});
  }
  require_written(out, path);
}

}  // namespace bench
