// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "growth_scenarios.hpp"

namespace bench {

enum class outcome { met, missed, not_measured };

/// What growth promises, and what was found.
struct bar {
  std::string claim;
  std::string bound;
  std::string figure = {};  ///< empty where it was not measured
  outcome result = outcome::not_measured;
};

/// All bars, those without rows among them.
[[nodiscard]] std::vector<bar> judge(const std::vector<measurement>& rows, const settings& chosen);

void print_bars(const std::vector<bar>& bars);

[[nodiscard]] const char* to_text(outcome result);

}  // namespace bench
