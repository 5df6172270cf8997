// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "capability/capability.hpp"

// A record as text, on disk, from the child and in HIPVMM_CAPABILITY: `key=value  # reason`.
namespace hipvmm::detail {

std::string line_of(const capability::record& found, trait which);
/// Measured numbers only.
std::string number_lines_of(const capability::record& found);

/// `assumable`: not the granularities, which HIP reports.
enum class keys { all, assumable };

/// Parses one line into `found`. A finding without a reason gets `otherwise`. Throws:
/// std::invalid_argument, which quotes the line and names the nearest key or all.
void read_line(std::string_view line, keys known, persistence holds, const std::string& otherwise,
               capability::record& found);

std::string on_one_line(std::string text);

}  // namespace hipvmm::detail
