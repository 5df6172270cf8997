// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "support/process/child_process.hpp"

/// A test case whose body is a child's, which `check` runs by the name that it is given, before
/// the other arguments: HIPVMM_TEST_CASE_BY(check_ends_well, "type: claim") { ... }.
#define HIPVMM_TEST_CASE_BY(check, name, ...) \
  HIPVMM_TEST_CASE_BY_NAME(DOCTEST_ANONYMOUS(hipvmm_child_), check, name, __VA_ARGS__)
#define HIPVMM_TEST_CASE_BY_NAME(body, check, name, ...)                                      \
  static void body();                                                                         \
  static const ::hipvmm::test::child_entry DOCTEST_CAT(body, registered){__FILE__ ": " #name, \
                                                                         body};               \
  TEST_CASE(name) { check(__FILE__ ": " #name __VA_OPT__(, ) __VA_ARGS__); }                  \
  static void body()

namespace hipvmm::test {

/// Runs a child, which must end the process by itself, with status 0.
inline void check_ends_well(const std::string& name,
                            const std::vector<std::string>& environment = {}) {
  check_child_ends(0, name, environment);
}

}  // namespace hipvmm::test
