// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "capability/capability.hpp"

// A record as text: lines `key=value  # reason`. The format of the cache on disk, of the program
// that probes and of HIPVMM_CAPABILITY.
namespace hipvmm::detail {

std::string line_of(const capability::record& found, trait which);
/// The lines of the numbers that have been measured.
std::string number_lines_of(const capability::record& found);

/// The keys that are accepted. An assumption cannot set reports of HIP itself, nor how long calls
/// take.
enum class keys { all, assumable };

/// Parses one `key=value`, with or without a reason after it, into `found`. A finding without a
/// reason gets `otherwise`.
/// Throws: std::invalid_argument, which quotes the line and lists the known keys.
void read_line(std::string_view line, keys known, persistence holds, const std::string& otherwise,
               capability::record& found);

/// Removes line breaks from the text: a line break would end its line.
std::string on_one_line(std::string text);

}  // namespace hipvmm::detail
