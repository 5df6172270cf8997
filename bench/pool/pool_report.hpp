// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "bench/support/bars.hpp"
#include "bench/support/report.hpp"
#include "pool_scenarios.hpp"

namespace bench {

/// The promises of pool_bench; all bars, those without rows among them.
[[nodiscard]] std::vector<bar> judge_pool(const std::vector<measurement>& rows,
                                          const pool_settings& chosen);

void print_pool_table(const std::vector<measurement>& rows);
/// Throws: std::system_error when the file cannot be written.
void write_pool_csv(const std::string& path, const origin& origin,
                    const std::vector<measurement>& rows);
/// One table a scenario and one of the bars. Throws: std::system_error as above.
void write_pool_markdown(const std::string& path, const origin& origin,
                         const std::vector<measurement>& rows, const std::vector<bar>& bars);

}  // namespace bench
