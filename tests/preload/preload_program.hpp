// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/process/program.hpp"

namespace hipvmm::test {

/// Runs a program that knows nothing of hipvmm, as it is.
inline outcome run_plain(const std::string& task) { return run(PRELOAD_MEMORY_PROGRAM, {task}); }

/// The same under hipvmm-run with these options.
inline outcome run_replaced(std::vector<std::string> options, const std::string& task,
                            const std::vector<std::string>& environment = {}) {
  options.emplace_back(PRELOAD_MEMORY_PROGRAM);
  options.push_back(task);
  const surroundings given{.environment = environment};
  return run(PRELOAD_RUN_PROGRAM, options, given);
}

/// The same under LD_PRELOAD as a user sets it by hand: nobody looks at the variables before.
inline outcome run_preloaded(const std::string& task, std::vector<std::string> environment) {
  const char* const before = std::getenv("LD_PRELOAD");  // a sanitizer, which must be first
  environment.push_back(
      "LD_PRELOAD=" + (before == nullptr ? std::string{} : std::string{before} + ":") +
      PRELOAD_LIBRARY);
  const surroundings given{.environment = std::move(environment)};
  return run(PRELOAD_MEMORY_PROGRAM, {task}, given);
}

/// The replaced calls of a run, and its other output.
struct counted_run {
  outcome ended;
  nlohmann::json counts;
};
inline counted_run run_counted(std::vector<std::string> options, const std::string& task,
                               const std::vector<std::string>& environment = {}) {
  const temporary_file file;
  options.insert(options.begin(), {"--json", file.path()});
  counted_run result{run_replaced(std::move(options), task, environment), {}};
  CAPTURE(result.ended.err);
  result.counts = nlohmann::json::parse(file.contents(), nullptr, false);
  REQUIRE(!result.counts.is_discarded());
  return result;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace hipvmm::test
