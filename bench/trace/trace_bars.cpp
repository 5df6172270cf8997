// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <string>

#include "bench/pool/pool_contenders.hpp"
#include "trace_measure.hpp"
#include "trace_report.hpp"

namespace bench {
namespace {

constexpr double microsecond_ns = 1e3;
constexpr double most_ratio = 1.03;
/// Streams that hand memory to each other need some of it at the same time.
constexpr double most_ratio_of_streams = 1.12;

bool same_epoch(const measurement& a, const measurement& b) {
  return a.scenario == b.scenario && a.figures.at(figure::epoch) == b.figures.at(figure::epoch);
}

/// The pool's time by that of the fastest other contender; none without both.
template <typename Time>
std::optional<double> beside_fastest(const std::vector<measurement>& rows, const measurement& pool,
                                     Time time_of) {
  std::optional<double> fastest;
  for (const measurement& each : rows)
    if (each.method != pool.method && same_epoch(each, pool) && !each.seconds.empty())
      fastest = std::min(fastest.value_or(time_of(each)), time_of(each));
  if (!fastest || pool.seconds.empty()) return std::nullopt;
  return time_of(pool) / *fastest;
}

std::optional<double> figure_of(const measurement& row, const char* name) {
  const auto found = row.figures.find(name);
  if (row.seconds.empty() || found == row.figures.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::vector<bar> judge_traces(const std::vector<measurement>& rows) {
  std::vector<bar> result;
  for (const measurement& row : rows) {
    if (row.method != name::pool) continue;
    const double epoch = row.figures.at(figure::epoch);
    const bool cold = epoch == 1;
    const std::string where = row.scenario + ", epoch " + std::to_string(static_cast<int>(epoch));
    if (row.figures.contains(figure::busy_bytes)) {
      result.push_back(at_most(where + ": until the GPU is done beside the fastest other", 1,
                               " times", beside_fastest(rows, row, [](const measurement& each) {
                                 return each.figures.at(figure::done_ms);
                               })));
    } else {
      result.push_back(at_most(where + ": all calls beside the fastest other", 1, " times",
                               beside_fastest(rows, row, [](const measurement& each) {
                                 return summarize(each.seconds).median;
                               })));
      result.push_back(at_most(where + ": allocate, 99 %", (cold ? 5 : 1) * microsecond_ns, " ns",
                               figure_of(row, figure::allocate_p99)));
      if (!cold)
        result.push_back(at_most(where + ": longest allocate", 1e6, " ns",
                                 figure_of(row, figure::allocate_longest)));
    }
    const bool several = row.figures.at(figure::streams) > 1;
    result.push_back(at_most(where + ": peak physical by peak requested",
                             several ? most_ratio_of_streams : most_ratio, " times",
                             figure_of(row, figure::peak_ratio)));
  }
  return result;
}

}  // namespace bench
