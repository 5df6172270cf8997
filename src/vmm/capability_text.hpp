// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "vmm/capability_record.hpp"

// A record as text: lines `key=value  # reason`. The cache on disk, the program that probes and
// HIPVMM_CAPABILITY speak it.
namespace hipvmm::detail {

/// The line of one finding.
std::string line_of(const capability::record& found, trait which);
/// The lines of the numbers that have been measured.
std::string number_lines_of(const capability::record& found);

/// Which keys make sense in an assumption: not what HIP says itself, nor how long calls take.
enum class keys { all, assumable };

/// Takes one `key=value`, with or without a reason behind it, into `found`. A finding without one
/// gets `otherwise` as its reason.
/// Throws: std::invalid_argument, which quotes the line and says what is known.
void read_line(std::string_view line, keys known, standing holds, const std::string& otherwise,
               capability::record& found);

/// The text without line breaks, which would end its line.
std::string on_one_line(std::string text);

}  // namespace hipvmm::detail
