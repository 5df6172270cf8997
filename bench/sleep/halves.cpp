// SPDX-License-Identifier: MIT
#include "halves.hpp"

#include <cstddef>

namespace bench {
namespace {

void compare(std::vector<measurement>& rows) {
  const measurement& baseline = rows.front();
  for (measurement& row : rows) {
    row.ratio.reset();
    row.pairs.clear();
    if (row.seconds.empty() || baseline.seconds.empty()) continue;
    row.ratio = summarize(row.seconds).median / summarize(baseline.seconds).median;
    row.pairs = paired_ratios(row, baseline);
  }
}

std::vector<measurement> half_of(std::vector<measurement> rows, const char* scenario,
                                 std::size_t step) {
  for (measurement& row : rows) {
    row.scenario = scenario;
    row.steps = 1;
    row.calls.reset();  // of both halves
    for (std::size_t i = 0; i < row.seconds.size(); ++i) {
      row.seconds[i] = row.step_seconds[i][step];
      row.step_seconds[i] = {row.seconds[i]};
    }
  }
  compare(rows);
  return rows;
}

}  // namespace

std::vector<measurement> measure_halves(const char* sleep, const char* wake, std::size_t bytes,
                                        const std::vector<method>& methods,
                                        const settings& chosen) {
  measurement row;
  row.steps = 2;
  row.bytes = bytes;
  const std::vector<measurement> both = measure(row, methods, chosen);
  std::vector<measurement> rows = half_of(both, sleep, 1);
  for (measurement& each : half_of(both, wake, 0)) rows.push_back(std::move(each));
  return rows;
}

void add_bandwidth(std::vector<measurement>& rows) {
  for (measurement& each : rows) {
    if (each.seconds.empty()) continue;
    const summary time = summarize(each.seconds);
    each.gigabytes_per_second = static_cast<double>(each.bytes) / 1e9 / time.median;
    each.best_gigabytes_per_second = static_cast<double>(each.bytes) / 1e9 / time.min;
  }
}

}  // namespace bench
