// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/support/bars.hpp"
#include "growth_scenarios.hpp"

namespace bench {

/// The promises of growth; all bars, those without rows among them.
[[nodiscard]] std::vector<bar> judge(const std::vector<measurement>& rows, const settings& chosen);

}  // namespace bench
