// SPDX-License-Identifier: MIT
#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "capability/capability.hpp"

namespace hipvmm::test {

struct trait_row {
  std::string_view name;
  bool when_unknown;
  std::string_view reports, effect, probe, response;
};
#define HIPVMM_TRAIT(name, ...) {#name, __VA_ARGS__},
inline constexpr trait_row trait_table[] = {
#include "capability/traits.def"
};

/// 7014 of "7.14", 10000 of "10".
inline int number_of(const std::string& release) {
  const std::size_t dot = release.find('.');
  return 1000 * std::stoi(release) + (dot > 2 ? 0 : std::stoi(release.substr(dot + 1)));
}

/// Returns whether reports begin with the release, as in "ROCm 6.1 to 6.4, 7.2: ".
inline bool is_missing(const trait_row& row, const std::string& release) {
  if (!row.reports.starts_with("ROCm ")) return false;
  std::istringstream ranges{std::string{row.reports.substr(5, row.reports.find(':') - 5)}};
  for (std::string range; std::getline(ranges >> std::ws, range, ',');) {
    const std::string last = range.ends_with(" on") ? "99" : range.substr(range.rfind(' ') + 1);
    if (number_of(range) <= number_of(release) && number_of(release) <= number_of(last))
      return true;
  }
  return false;
}

/// The record that the table makes of a release, on a device without defects of its own.
inline capability::record record_of(const std::string& release) {
  capability::record made;
  // Without virtual memory nothing else is asked.
  const bool is_asked = !is_missing(trait_table[0], release);
  for (std::size_t i = 0; i < (is_asked ? trait_count : 1); ++i)
    made.findings[i] = is_missing(trait_table[i], release) ? finding::no : finding::yes;
  made.descriptors_per_chunk = release == "7.14" ? 1 : 0;
  made.conclude();
  return made;
}

}  // namespace hipvmm::test
