// SPDX-License-Identifier: MIT
#include "bars.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "report.hpp"

namespace bench {
namespace {

std::string number(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, value >= 100 ? "%.0f%s" : "%.4g%s", value, unit);
  return text;
}

/// A median with its quartiles.
std::string spread(const summary& of, const char* unit) {
  return number(of.median, unit) + " (" + number(of.lower_quartile, "") + " to " +
         number(of.upper_quartile, "") + ")";
}

template <typename Judge>
bar judge_median(const std::vector<double>& found, const char* unit, Judge judge) {
  if (found.empty()) return judge(std::optional<double>{});
  const summary of = summarize(found);
  bar result = judge(std::optional<double>{of.median});
  result.figure = spread(of, unit);
  return result;
}

}  // namespace

bar at_most(std::string claim, double bound, const char* unit, std::optional<double> found) {
  bar result{std::move(claim), "at most " + number(bound, unit)};
  if (!found) return result;
  result.figure = number(*found, unit);
  result.result = *found <= bound ? outcome::met : outcome::missed;
  return result;
}

bar at_least(std::string claim, double bound, const char* unit, std::optional<double> found) {
  bar result{std::move(claim), "at least " + number(bound, unit)};
  if (!found) return result;
  result.figure = number(*found, unit);
  result.result = *found >= bound ? outcome::met : outcome::missed;
  return result;
}

bar at_most(std::string claim, double bound, const char* unit, const std::vector<double>& found) {
  return judge_median(found, unit, [&](std::optional<double> median) {
    return at_most(claim, bound, unit, median);
  });
}

bar at_least(std::string claim, double bound, const char* unit, const std::vector<double>& found) {
  return judge_median(found, unit, [&](std::optional<double> median) {
    return at_least(claim, bound, unit, median);
  });
}

bar told(std::string claim, const char* unit, const std::vector<double>& found) {
  return judge_median(found, unit, [&](std::optional<double> median) {
    return bar{
        std::move(claim), "no bound", {}, median ? outcome::without_bound : outcome::not_measured};
  });
}

void print_bars(const std::vector<bar>& bars) {
  std::printf("\n%-76s %-20s %-32s %s\n", "bar", "", "figure", "");
  for (const bar& each : bars)
    std::printf("%-76s %-20s %-32s %s\n", each.claim.c_str(), each.bound.c_str(),
                each.figure.c_str(), to_text(each.result));
}

bool any_missed(const std::vector<bar>& bars) {
  return std::any_of(bars.begin(), bars.end(),
                     [](const bar& each) { return each.result == outcome::missed; });
}

const char* to_text(outcome result) {
  switch (result) {
    case outcome::met:
      return "met";
    case outcome::missed:
      return "MISSED";
    case outcome::not_measured:
      return "not measured";
    case outcome::without_bound:
      break;
  }
  return "";
}

}  // namespace bench
