// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace bench {

enum class outcome { met, missed, not_measured, without_bound };

/// A promise, and the figure found.
struct bar {
  std::string claim;
  std::string bound;
  std::string figure = {};  ///< empty if it was not measured
  outcome result = outcome::not_measured;
};

/// Judges `found`, in `unit`; none if it was not measured.
[[nodiscard]] bar at_most(std::string claim, double bound, const char* unit,
                          std::optional<double> found);
[[nodiscard]] bar at_least(std::string claim, double bound, const char* unit,
                           std::optional<double> found);
/// The same for the median of `found`, with its quartiles beside it in the figure.
[[nodiscard]] bar at_most(std::string claim, double bound, const char* unit,
                          const std::vector<double>& found);
[[nodiscard]] bar at_least(std::string claim, double bound, const char* unit,
                           const std::vector<double>& found);

/// The figures found, beside the bars; no bound was promised.
[[nodiscard]] bar told(std::string claim, const char* unit, const std::vector<double>& found);

void print_bars(const std::vector<bar>& bars);
[[nodiscard]] bool any_missed(const std::vector<bar>& bars);

[[nodiscard]] const char* to_text(outcome result);

}  // namespace bench
