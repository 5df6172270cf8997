// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "bench/support/report.hpp"
#include "growth_bars.hpp"

namespace bench {

/// Writes one table a scenario and one of the bars, in Markdown.
/// Throws: std::system_error when the file cannot be written.
void write_markdown(const std::string& path, const origin& origin,
                    const std::vector<measurement>& rows, const std::vector<bar>& bars);

}  // namespace bench
