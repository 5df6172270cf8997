// SPDX-License-Identifier: MIT
#include "preload/settings.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "c/options.hpp"

namespace hipvmm::preload {

settings parse_settings(std::string_view text) {
  using value_text = std::string_view;
  constexpr const char* bytes_allowed = "bytes such as 65536, 64KiB or 4GiB";
  constexpr const char* file_allowed =
      "stderr, - for standard output, or a file; %p in its name is the process";
  settings made;
  const auto name_file = [](std::string& to) {
    return [&to](value_text value) {
      if (value.empty()) c::refuse_value("no file is named");
      to = value;
    };
  };
  const std::vector<c::option> table{
      {"threshold", bytes_allowed, [&](value_text value) { made.threshold = parse_bytes(value); }},
      {"most", bytes_allowed, [&](value_text value) { made.most = parse_bytes(value); }},
      c::choice_option("free", made.free_waits, {{"waits", true}, {"returns", false}}),
      {"statistics", file_allowed, name_file(made.statistics)},
      {"json", file_allowed, name_file(made.json)},
  };
  c::apply_options("the environment variable HIPVMM_PRELOAD", text, table);
  if (made.threshold > made.most)
    throw std::invalid_argument{"the environment variable HIPVMM_PRELOAD: a threshold of " +
                                format_bytes(made.threshold) + " is above the most, " +
                                format_limit(made.most) +
                                ": no request would be replaced; say off for that"};
  return made;
}

}  // namespace hipvmm::preload
