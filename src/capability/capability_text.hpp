// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "capability/capability.hpp"

// A record as text: lines `key=value  # reason`, in the cache on disk, from the program that
// probes, and in HIPVMM_CAPABILITY.
namespace hipvmm::detail {

std::string line_of(const capability::record& found, trait which);
/// Only of measured numbers.
std::string number_lines_of(const capability::record& found);

/// Assumable keys leave out HIP's own reports.
enum class keys { all, assumable };

/// Parses one `key=value`, with or without a reason, into `found`. Without a reason a finding gets
/// `otherwise`. Throws: std::invalid_argument, which quotes the line and lists the known keys.
void read_line(std::string_view line, keys known, persistence holds, const std::string& otherwise,
               capability::record& found);

std::string on_one_line(std::string text);

}  // namespace hipvmm::detail
