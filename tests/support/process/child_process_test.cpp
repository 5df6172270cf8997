// SPDX-License-Identifier: MIT
#include "support/process/child_process.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace hipvmm::test {
namespace {

bool says(const child_result& child, const char* text) {
  return child.output.find(text) != std::string::npos;
}

HIPVMM_CHILD("has asserts that fail") {
  const int number = 3;
  CAPTURE(number);
  CHECK(number == 4);
  CHECK_THROWS_AS(static_cast<void>(number), std::runtime_error);
  REQUIRE(number == 5);
  CHECK(number == 6);
}

TEST_CASE("child process: asserts that fail tell file, line, values and what was captured") {
  const child_result child = run_child("has asserts that fail");
  CAPTURE(child.output);
  CHECK(child.status == 1);
  CHECK_FALSE(passed(child));
  CHECK(says(child, "child_process_test.cpp:20: ERROR: CHECK( number == 4 )\n"));
  CHECK(says(child, "  values: 3 == 4\n  logged: number := 3\n"));
  CHECK(says(child, "child_process_test.cpp:21: ERROR: CHECK_THROWS_AS("));
  CHECK(says(child, "child_process_test.cpp:22: FATAL ERROR: REQUIRE( number == 5 )\n"));
  CHECK_FALSE(says(child, "number == 6"));
}

HIPVMM_CHILD("exits before its end") { std::exit(0); }
HIPVMM_CHILD("throws") { throw std::runtime_error{"what it threw"}; }
HIPVMM_CHILD("aborts") { std::abort(); }

TEST_CASE("child process: only one that comes to its end has passed") {
  const child_result exited = run_child("exits before its end");
  CHECK(exited.status == 0);
  CHECK_FALSE(passed(exited));
  const child_result thrown = run_child("throws");
  CHECK(thrown.status == 1);
  CHECK(says(thrown, "the child ended with an exception: what it threw\n"));
  CHECK(run_child("aborts").status == 128 + SIGABRT);
  const child_result unknown = run_child("nobody");
  CHECK(unknown.status == 127);
  CHECK(says(unknown, "no child is called \"nobody\"\n"));
}

HIPVMM_TEST_CASE_IN("child process: a case in another environment sees that",
                    {"HIPVMM_TEST_OF_CHILDREN=1"}) {
  CHECK(std::getenv("HIPVMM_TEST_OF_CHILDREN") != nullptr);
}

}  // namespace
}  // namespace hipvmm::test
