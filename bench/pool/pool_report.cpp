// SPDX-License-Identifier: MIT
#include "pool_report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "bench/support/markdown.hpp"

namespace bench {
namespace {

struct figures {
  explicit figures(const measurement& row)
      : best{summarize(row.seconds).min},
        median{summarize(row.seconds).median},
        p99{quantile(row.seconds, 0.99)},
        worst{summarize(row.seconds).max} {
    if (!is_single(row)) {
      if (row.calls) calls = static_cast<double>(row.calls->all) / static_cast<double>(row.steps);
      return;
    }
    std::vector<double> of_samples;
    for (const std::vector<double>& sample : row.step_seconds)
      of_samples.push_back(*std::max_element(sample.begin(), sample.end()));
    longest = summarize(of_samples).median;
  }

  double best;
  double median;
  double p99;
  double worst;
  std::optional<double> longest;  // median over the samples of the longest step in each
  std::optional<double> calls;    // HIP's, a step

 private:
  /// Its steps were timed one by one.
  static bool is_single(const measurement& row) {
    return std::any_of(row.step_seconds.begin(), row.step_seconds.end(),
                       [](const std::vector<double>& sample) { return sample.size() > 1; });
  }
};

std::string decimal(double value, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string in_ns(double seconds) { return decimal(seconds * 1e9, 1); }

/// The difference between the rows of one scenario: the number of threads if `of_threads`.
std::string variant_of(const measurement& row, bool of_threads) {
  if (!of_threads) return hipvmm::format_bytes(row.bytes);
  return std::to_string(row.threads) + (row.threads == 1 ? " thread" : " threads");
}

std::string cell_of(const measurement& row) {
  if (row.seconds.empty()) return row.note;
  const figures of{row};
  std::string text = duration(of.median) + " (" + duration(of.best) + " to " + duration(of.p99);
  if (of.longest) text += ", longest " + duration(of.worst);
  return text + ")";
}

template <typename Value>
void add_new(std::vector<Value>& list, const Value& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

/// Methods below, sizes or threads across; the notes follow.
void write_table(std::ofstream& out, const std::vector<measurement>& rows) {
  std::vector<std::string> methods;
  std::vector<std::string> variants;
  const bool of_threads =
      std::any_of(rows.begin(), rows.end(), [](const measurement& row) { return row.threads > 1; });
  for (const measurement& row : rows) {
    add_new(methods, row.method);
    add_new(variants, variant_of(row, of_threads));
  }
  out << "\n**" << rows.front().scenario << "**, median (best to 99 %):\n\n";
  std::vector<std::string> cells{"method"};
  cells.insert(cells.end(), variants.begin(), variants.end());
  write_head(out, cells);
  for (const std::string& method : methods) {
    cells = {method};
    for (const std::string& variant : variants) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const measurement& each) {
        return each.method == method && variant_of(each, of_threads) == variant;
      });
      cells.push_back(row == rows.end() ? "" : cell_of(*row));
    }
    write_line(out, cells);
  }
  std::string notes;
  for (const measurement& row : rows)
    if (!row.seconds.empty() && !row.note.empty())
      notes += (notes.empty() ? "" : "; ") + row.method + ": " + row.note;
  if (!notes.empty()) out << '\n' << notes << ".\n";
}

}  // namespace

void print_pool_table(const std::vector<measurement>& rows) {
  std::printf("%-34s %-28s %10s %8s %8s %8s %12s %12s %12s %14s %8s %8s\n", "scenario", "method",
              "bytes", "threads", "steps", "samples", "best ns", "median ns", "99 % ns", "worst ns",
              "x pool", "calls");
  for (const measurement& row : rows) {
    const std::string note = row.note.empty() ? "" : " (" + row.note + ")";
    std::printf("%-34s %-28s %10s %8d", row.scenario.c_str(), row.method.c_str(),
                hipvmm::format_bytes(row.bytes).c_str(), row.threads);
    if (!row.seconds.empty()) {
      const figures of{row};
      std::printf(" %8zu %8zu %12.1f %12.1f %12.1f %14.1f %8s %8s", row.steps, row.seconds.size(),
                  of.best * 1e9, of.median * 1e9, of.p99 * 1e9, of.worst * 1e9,
                  row.ratio ? decimal(*row.ratio, 2).c_str() : "",
                  of.calls ? decimal(*of.calls, 2).c_str() : "");
    }
    std::printf("%s\n", note.c_str());
  }
}

void write_pool_csv(const std::string& path, const origin& origin,
                    const std::vector<measurement>& rows) {
  std::ofstream csv{path};
  csv << "date,machine,provider,command,scenario,method,bytes,threads,steps,samples,best_ns,"
         "median_ns,p99_ns,worst_ns,longest_ns,ratio_to_pool,pairs,paired_ratio,paired_ratio_lower_"
         "quartile,paired_ratio_upper_quartile,hip_calls,note\n";
  for (const measurement& row : rows) {
    csv << origin.date << ',' << quoted(origin.machine) << ',' << quoted(origin.provider) << ','
        << quoted(origin.command) << ',' << quoted(row.scenario) << ',' << quoted(row.method) << ','
        << row.bytes << ',' << row.threads << ',' << row.steps << ',' << row.seconds.size() << ',';
    if (row.seconds.empty()) {
      csv << ",,,,,,,,,,,";
    } else {
      const figures of{row};
      csv << in_ns(of.best) << ',' << in_ns(of.median) << ',' << in_ns(of.p99) << ','
          << in_ns(of.worst) << ',' << (of.longest ? in_ns(*of.longest) : "") << ','
          << (row.ratio ? decimal(*row.ratio, 4) : "") << ',' << row.pairs.size() << ',';
      if (row.pairs.empty()) {
        csv << ",,,";
      } else {
        const summary paired = summarize(row.pairs);
        csv << decimal(paired.median, 4) << ',' << decimal(paired.lower_quartile, 4) << ','
            << decimal(paired.upper_quartile, 4) << ',';
      }
      csv << (of.calls ? decimal(*of.calls, 4) : "") << ',';
    }
    csv << quoted(row.note) << '\n';
  }
  require_written(csv, path);
}

void write_pool_markdown(const std::string& path, const origin& origin,
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
