// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

/// The work of a child process: HIPVMM_CHILD("fills the device") { ... }. No test case: nothing
/// but run_child starts it, by that name. doctest's asserts print file, line and values in it too;
/// one that fails, or an exception that leaves it, is the child's exit status 1.
#define HIPVMM_CHILD(name) HIPVMM_CHILD_BY(DOCTEST_ANONYMOUS(hipvmm_child_), name)
#define HIPVMM_CHILD_BY(body, name)                                                   \
  static void body();                                                                 \
  static const ::hipvmm::test::child_entry DOCTEST_CAT(body, registered){name, body}; \
  static void body()

/// A test case whose body is a child's, with that environment:
/// HIPVMM_TEST_CASE_IN("type: claim", {"NAME=value"}) { ... }.
#define HIPVMM_TEST_CASE_IN(name, ...) \
  HIPVMM_TEST_CASE_IN_BY(DOCTEST_ANONYMOUS(hipvmm_child_), name, __VA_ARGS__)
#define HIPVMM_TEST_CASE_IN_BY(body, name, ...)                                               \
  static void body();                                                                         \
  static const ::hipvmm::test::child_entry DOCTEST_CAT(body, registered){__FILE__ ": " #name, \
                                                                         body};               \
  TEST_CASE(name* ::hipvmm::test::skipped_under_profile(__VA_ARGS__)) {                       \
    ::hipvmm::test::check_child(__FILE__ ": " #name, __VA_ARGS__);                            \
  }                                                                                           \
  static void body()

namespace hipvmm::test {

/// Whether a run under a profile of the host provider has its other settings as without one.
inline bool differs_by_profile_only() {
  const auto is = [](const char* name, const std::string& value) {
    const char* const set = std::getenv(name);
    return set != nullptr && set == value;
  };
  return std::getenv("HIPVMM_HOST_PROFILE") != nullptr && !is("HIPVMM_HOST_CHECK", "1") &&
         !is("HIPVMM_HOST_REUSE_HANDLES", "0");
}

/// Marks a case that names the profiles of all its children: under another profile the case would
/// ask the same again, so such a run skips it. With the order checker, or without handles that come
/// again, it asks more, and is run. HIPVMM_TEST_CASE_IN applies this by itself.
inline const doctest::skip names_its_profiles{differs_by_profile_only()};

inline doctest::skip skipped_under_profile(const std::vector<std::string>& environment) {
  return std::any_of(
             environment.begin(), environment.end(),
             [](const std::string& each) { return each.starts_with("HIPVMM_HOST_PROFILE="); })
             ? names_its_profiles
             : doctest::skip{false};
}

/// The end of a child process and its text on standard output and standard error.
struct child_result {
  int status;  ///< exit status, or 128 and the signal that killed it
  std::string output;
};

/// A descriptor that a child inherits as `number`.
struct inherited_descriptor {
  int descriptor;
  int number;
};

/// Makes `body` known to run_child for as long as the process lives.
struct child_entry {
  child_entry(const char* name, void (*body)());
};

/// Starts this test program again as the child that HIPVMM_CHILD calls `name`, with `environment`
/// ("NAME=value") added to this process's, and waits for it.
child_result run_child(const std::string& name, const std::vector<std::string>& environment = {},
                       const std::vector<inherited_descriptor>& descriptors = {});

/// Whether the child came to the end of its body and no assert in it failed.
bool passed(const child_result& result);

/// Runs a child, which must pass.
inline void check_child(const std::string& name, const std::vector<std::string>& environment = {},
                        const std::vector<inherited_descriptor>& descriptors = {}) {
  CAPTURE(name);
  const child_result child = run_child(name, environment, descriptors);
  CHECK_MESSAGE(passed(child), child.output);
}

/// Runs a child, which must end the process with `status` by itself.
inline void check_child_ends(int status, const std::string& name,
                             const std::vector<std::string>& environment = {}) {
  CAPTURE(name);
  const child_result child = run_child(name, environment);
  CHECK_MESSAGE(child.status == status, child.output);
}

/// Whether a child was killed for touching memory that it may not; AddressSanitizer reports that
/// itself.
bool was_segv(const child_result& result);

/// For a program's main: if run_child started it, does the child's work and returns its exit
/// status.
std::optional<int> run_as_child(int argc, char** argv);

}  // namespace hipvmm::test
