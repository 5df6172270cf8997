// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "profile_rules.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm::test;

namespace {

// Answers by which rocm-10 differs from rocm-7.14. Everything else is that column.
struct changed_answer {
  std::string_view question;
  int answer;
};
constexpr std::array changed{changed_answer{"hipRuntimeGetVersion", 71500000},
                             changed_answer{"hipDriverGetVersion", 71500000},
                             changed_answer{"descriptors that a chunk takes", 0},
                             changed_answer{"hipMemCreate on the second node of the host", 0}};

int expected_of(const rule& asked) {
  for (const changed_answer& each : changed) {
    if (each.question == asked.question) return each.answer;
  }
  const auto* const column = std::find(profile_names.begin(), profile_names.end(), "rocm-7.14");
  REQUIRE(column != profile_names.end());
  return asked.answers[static_cast<std::size_t>(column - profile_names.begin())];
}

int ask_all(std::span<const rule> rules) {
  int asked = 0;
  for (const rule& each : rules) {
    const int expected = expected_of(each);
    if (expected == no_answer || expected == crashes) continue;
    CAPTURE(each.question);
    CHECK(each.ask() == expected);
    REQUIRE(hipSetDevice(0) == hipSuccess);
    ++asked;
  }
  return asked;
}

}  // namespace

HIPVMM_CHILD("rocm-10 answers as rocm-7.14 but for its list") { CHECK(ask_all(all_rules()) > 60); }

TEST_CASE("profile: rocm-10 answers as rocm-7.14 but for its list" *
          hipvmm::test::names_its_profiles) {
  for (const changed_answer& each : changed) {
    CAPTURE(each.question);
    const auto named = [&each](const rule& r) { return r.question == each.question; };
    CHECK(std::ranges::count_if(all_rules(), named) == 1);
  }
  check_child("rocm-10 answers as rocm-7.14 but for its list", {"HIPVMM_HOST_PROFILE=rocm-10"});
}
