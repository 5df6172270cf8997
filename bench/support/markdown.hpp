// SPDX-License-Identifier: MIT
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "bars.hpp"
#include "report.hpp"

// The parts of tables in Markdown.
namespace bench {

/// Three digits, which is more than most figures are worth, and never 1e+05.
[[nodiscard]] std::string digits(double value);
/// In the unit that suits it: s, ms, µs or ns.
[[nodiscard]] std::string duration(double seconds);

void write_line(std::ostream& out, const std::vector<std::string>& cells);
/// A table's first line and the one below it.
void write_head(std::ostream& out, const std::vector<std::string>& titles);

void write_origin(std::ostream& out, const origin& origin);
void write_bars(std::ostream& out, const std::vector<bar>& bars);

}  // namespace bench
