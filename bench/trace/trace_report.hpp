// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "bench/support/bars.hpp"
#include "bench/support/report.hpp"

namespace bench {

/// The promises of trace_bench: for each trace and epoch of `rows` one bar of each kind.
[[nodiscard]] std::vector<bar> judge_traces(const std::vector<measurement>& rows);

void print_trace_table(const std::vector<measurement>& rows);
/// Throws: std::system_error when the file cannot be written.
void write_trace_csv(const std::string& path, const origin& origin,
                     const std::vector<measurement>& rows);
/// One table a trace and one of the bars. Throws: std::system_error as above.
void write_trace_markdown(const std::string& path, const origin& origin,
                          const std::vector<measurement>& rows, const std::vector<bar>& bars);

}  // namespace bench
