// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include <hipvmm/core/bytes.hpp>
#include "pool_contenders.hpp"
#include "pool_report.hpp"

namespace bench {
namespace {

/// nullptr if it was not measured.
const measurement* find(const std::vector<measurement>& rows, const char* scenario,
                        std::size_t bytes, int threads, const char* method = name::pool) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const measurement& row) {
    return row.scenario == scenario && row.method == method && row.bytes == bytes &&
           row.threads == threads && !row.seconds.empty();
  });
  return found == rows.end() ? nullptr : &*found;
}

std::vector<double> nanoseconds(const measurement* row) {
  if (row == nullptr) return {};
  std::vector<double> result = row->seconds;
  for (double& each : result) each *= 1e9;
  return result;
}

}  // namespace

std::vector<bar> judge_pool(const std::vector<measurement>& rows, const pool_settings& chosen) {
  std::vector<bar> bars;
  for (const std::size_t bytes : {std::size_t{256}, hipvmm::MiB, 256 * hipvmm::MiB}) {
    const std::string size = hipvmm::format_bytes(bytes);
    bars.push_back(
        at_most("pair of " + size, 60, " ns", nanoseconds(find(rows, scenario::pairs, bytes, 1))));
    const measurement* const among = find(rows, scenario::pairs_with_holes, bytes, 1);
    const measurement* const without =
        find(rows, scenario::pairs_with_holes, bytes, 1, name::pool_without_holes);
    std::vector<double> ratios;
    if (among != nullptr && without != nullptr) ratios = paired_ratios(*among, *without);
    bars.push_back(
        at_most("pair of " + size + " among holes beside without", 1.2, " times", ratios));
  }
  bars.push_back(at_most("pair of 256 B in aggregate, 4 threads with streams of their own", 40,
                         " ns", nanoseconds(find(rows, scenario::own_streams, 256, 4))));
  for (const auto& [scenario, blocks, most] :
       {std::tuple{scenario::create, "16", 1.5}, std::tuple{scenario::create_small, "256", 4.0}}) {
    std::vector<double> times = nanoseconds(find(rows, scenario, hipvmm::GiB, 1));
    for (double& each : times) each *= 1e-6;
    bars.push_back(
        at_most(std::string{"1 GiB of new memory in "} + blocks + " blocks", most, " ms", times));
  }
  const measurement* const taken = row_of(rows, scenario::taken, "idle in a pool");
  const measurement* const created = row_of(rows, scenario::taken, "new");
  bars.push_back(at_most("a block that is idle in another pool, beside a new one", 1.5, " times",
                         taken == nullptr || created == nullptr ? std::vector<double>{}
                                                                : paired_ratios(*taken, *created)));
  const measurement* const trim = find(rows, scenario::beside_trim, chosen.trim_bytes, 1);
  std::optional<double> longest;
  if (trim != nullptr) longest = summarize(trim->seconds).max * 1e3;
  bars.push_back(at_most("longest pair beside a trim of " + hipvmm::format_bytes(chosen.trim_bytes),
                         1, " ms", longest));
  return bars;
}

}  // namespace bench
