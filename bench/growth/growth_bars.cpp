// SPDX-License-Identifier: MIT
#include "growth_bars.hpp"

#include <optional>
#include <string>

namespace bench {
namespace {

using figure = std::optional<double>;

using ratios = std::vector<double>;

/// Looks the rows of one run up.
class finder {
 public:
  explicit finder(const std::vector<measurement>& rows) : rows_{rows} {}

  /// How many times as long `slow` takes as `fast`.
  figure times(const std::string& scenario, const char* slow, const char* fast) const {
    const measurement* const a = row_of(rows_, scenario, slow);
    const measurement* const b = row_of(rows_, scenario, fast);
    if (a == nullptr || b == nullptr) return std::nullopt;
    return summarize(a->seconds).median / summarize(b->seconds).median;
  }
  /// The same for each turn that sampled both.
  ratios paired(const std::string& scenario, const char* slow, const char* fast) const {
    const measurement* const a = row_of(rows_, scenario, slow);
    const measurement* const b = row_of(rows_, scenario, fast);
    return a == nullptr || b == nullptr ? ratios{} : paired_ratios(*a, *b);
  }
  figure peak(const std::string& scenario, const char* method) const {
    const measurement* const row = row_of(rows_, scenario, method);
    if (row == nullptr || !row->peak_bytes) return std::nullopt;
    return static_cast<double>(*row->peak_bytes) / static_cast<double>(row->bytes);
  }
  figure median_step_us(const std::string& scenario, const char* method) const {
    const measurement* const row = row_of(rows_, scenario, method);
    if (row == nullptr) return std::nullopt;
    const auto steps = summarize_steps(*row);
    return steps ? figure{steps->median.median * 1e6} : std::nullopt;
  }
  figure slowest_ms(const std::string& scenario, const char* method) const {
    const measurement* const row = row_of(rows_, scenario, method);
    return row == nullptr ? figure{} : figure{summarize(row->seconds).max * 1e3};
  }
  figure share(const std::string& scenario, const char* method) const {
    const measurement* const row = row_of(rows_, scenario, method);
    return row == nullptr || !row->share ? figure{} : figure{*row->share * 100};
  }
  figure copies(const std::string& scenario, const char* method) const {
    const measurement* const row = row_of(rows_, scenario, method);
    return row == nullptr || !row->calls ? figure{}
                                         : figure{static_cast<double>(row->calls->copies)};
  }

 private:
  const std::vector<measurement>& rows_;
};

}  // namespace

std::vector<bar> judge(const std::vector<measurement>& rows, const settings& chosen) {
  const finder found{rows};
  const std::string steps = scenario::steps(chosen);
  const std::string peers = scenario::peers(chosen);
  std::vector<bar> bars;
  for (const std::string& each : {std::string{scenario::doubling}, steps, peers})
    for (const char* method : {name::region, name::exact_vector})
      bars.push_back(at_most(each + ": " + method + " beside raw calls", 1.10, " times",
                             found.paired(each, method, name::raw_calls)));
  for (const std::string& each : {std::string{scenario::doubling}, steps})
    for (const char* method : {name::region, name::exact_vector})
      bars.push_back(at_most(each + ": copies by " + method, 0, "", found.copies(each, method)));
  bars.push_back(at_least(std::string{scenario::doubling} + ": vector faster than copy", 20,
                          " times", found.times(scenario::doubling, name::copy, name::vector)));
  bars.push_back(at_least(std::string{scenario::doubling} + ": vector again faster than copy", 20,
                          " times",
                          found.times(scenario::doubling, name::copy, name::vector_again)));
  bars.push_back(at_most(std::string{scenario::doubling} + ": peak of vector beside final size",
                         1.002, " times", found.peak(scenario::doubling, name::vector)));
  bars.push_back(at_least(steps + ": vector exact faster than copy", 200, " times",
                          found.times(steps, name::copy, name::exact_vector)));
  bars.push_back(at_most(steps + ": median step of vector ahead", 2, " us",
                         found.median_step_us(steps, name::ahead)));
  bars.push_back(at_least("largest vector of the memory free at the start", 99.5, " %",
                          found.share(scenario::largest, name::vector)));
  for (const char* each : {scenario::read_kernel, scenario::copy_kernel, scenario::copy_call})
    for (const char* method : {name::doubled_vector, name::stepped_vector})
      bars.push_back(
          at_least(std::string{each} + ": bandwidth over " + method + " beside hipMalloc", 0.99,
                   " times", found.paired(each, name::plain, method)));
  for (const char* method : {name::region, name::exact_vector, name::vector})
    bars.push_back(at_most(std::string{scenario::beside} + ": slowest step of " + method, 1, " ms",
                           found.slowest_ms(scenario::beside, method)));
  return bars;
}

}  // namespace bench
