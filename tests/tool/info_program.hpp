// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process/program.hpp"

namespace hipvmm::test {

/// Runs the built hipvmm-info as a user does.
inline outcome info(const std::vector<std::string>& arguments, const surroundings& given = {}) {
  return run(INFO_PROGRAM, arguments, given);
}

/// The output of a run that goes well; it is silent on standard error.
inline std::string info_text(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment = {}) {
  const outcome ended = info(arguments, surroundings{.environment = environment});
  CAPTURE(ended.err);
  CHECK(ended.err.empty());
  REQUIRE(ended.status == 0);
  return ended.out;
}

inline nlohmann::json info_json(std::vector<std::string> arguments,
                                const std::vector<std::string>& environment = {}) {
  arguments.emplace_back("--json");
  return nlohmann::json::parse(info_text(arguments, environment));
}

/// Checks that a run fails with `status` and one sentence that has all of `words` in it.
inline void check_fails(const outcome& ended, int status, const std::vector<std::string>& words) {
  CAPTURE(ended.err);
  CHECK(ended.status == status);
  CHECK(ended.out.empty());
  check_sentence(ended.err, "hipvmm-info: ", words);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace hipvmm::test
