// SPDX-License-Identifier: MIT
// Asks the linked runtime every question of providers/host/tests/profile/profile_*_rules.cpp and
// compares with the column of its release. A question has a process of its own and ten seconds, so
// a crash and a call that never returns are answers too. If the runtime does not decide the
// answer (decided_by), it is printed and not judged. On a real ROCr nothing is judged, because its
// GPUs and links are those of the machine, and what needs held streams is left out.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "providers/host/tests/fixtures.hpp"
#include "providers/host/tests/profile/profile_rules.hpp"
#include "stand_in.hpp"

using namespace hipvmm::test;

namespace {

/// A question may start sixteen processes, each of which loads AMD's runtime.
constexpr int seconds_for_an_answer = 120;
/// The limit for a runtime that waits for itself.
constexpr int seconds_without_an_answer = 10;
constexpr std::string_view answer_mark = "the answer is ";

const char* text_of(decided_by who) {
  switch (who) {
    case decided_by::user_space:
      return "the runtime";
    case decided_by::rocr:
      return "ROCr";
    case decided_by::hardware:
      return "hardware";
    case decided_by::chance:
      return "chance";
  }
  return "nobody";
}

/// The answer of a process, or the kind of its end without one.
std::optional<int> answer_of(const child_result& child) {
  const std::size_t mark = child.output.rfind(answer_mark);
  if (mark != std::string::npos) {
    return std::atoi(child.output.c_str() + mark + answer_mark.size());
  }
  // A call that waits for itself is hipErrorIllegalState on the host provider.
  if (child.status == 128 + SIGALRM) return hipErrorIllegalState;
  if (child.status > 128) return crashes;
  return std::nullopt;
}

std::string text_of(std::optional<int> answer) {
  if (!answer) return "none";
  if (*answer == crashes) return "a crash";
  return std::to_string(*answer);
}

// Devices 0 and 1 reach each other; nothing reaches device 2.
child_result ask_alone(const rule& asked, int expected) {
  std::vector<std::string> environment = stand_in_settings(3, "0-1");
  environment.push_back("TEST_QUESTION=" + std::string{asked.question});
  environment.push_back("TEST_SECONDS=" + std::to_string(expected == hipErrorIllegalState
                                                             ? seconds_without_an_answer
                                                             : seconds_for_an_answer));
  return run_child("one question", environment);
}

std::size_t linked_column() {
  const std::string name = linked_profile();
  const auto found = std::find(profile_names.begin(), profile_names.end(), name);
  INFO("the tables have no column ", name,
       ": add one to providers/host/tests/profile/profile_rules.hpp");
  REQUIRE(found != profile_names.end());
  return static_cast<std::size_t>(found - profile_names.begin());
}

void ask_all(std::span<const rule> rules) {
  const bool judged = is_on_stand_in();
  if (!judged && std::getenv("HIPVMM_TEST_REAL_ROCR") == nullptr) {
    MESSAGE(
        "skipped: on a real ROCr a crash may disturb other programs; HIPVMM_TEST_REAL_ROCR=1 asks");
    return;
  }
  const std::size_t column = linked_column();
  int agreed = 0;
  int left_out = 0;
  for (const rule& each : rules) {
    const int expected = each.answers[column];
    if (expected == no_answer) continue;
    const child_result child = ask_alone(each, expected);
    const std::optional<int> given = answer_of(child);
    if (given == expected) {
      ++agreed;
      continue;
    }
    if (child.output.find(lacks_control) != std::string::npos) {
      ++left_out;
      continue;
    }
    const std::string told = std::string{each.question} + ": " + text_of(given) + ", in column " +
                             std::string{profile_names[column]} + " " + text_of(expected) +
                             "; decided by " + text_of(each.who);
    if (judged && each.who == decided_by::user_space) {
      CAPTURE(child.output);
      FAIL_CHECK(told);
    } else {
      MESSAGE(told);
    }
  }
  MESSAGE(agreed, " of ", rules.size(), " answers are those of column ", profile_names[column],
          ", ", left_out, " questions need the stand-in");
  CHECK(agreed > 0);
  if (judged) CHECK(left_out == 0);
}

}  // namespace

HIPVMM_CHILD("one question") {
  ::alarm(static_cast<unsigned>(std::atoi(std::getenv("TEST_SECONDS"))));
  const std::string_view question = std::getenv("TEST_QUESTION");
  for (const rule& each : all_rules()) {
    if (each.question != question) continue;
    const int answer = each.ask();
    std::printf("%s%d\n", answer_mark.data(), answer);
    std::fflush(stdout);
    std::_Exit(0);  // no cleanup of the question's leftovers
  }
  FAIL("there is no question \"", question, "\"");
}

TEST_CASE("amd: virtual memory is as the column of the runtime's release says") {
  ask_all(virtual_memory_rules());
}

TEST_CASE("amd: pools and devices are as the column of the runtime's release says") {
  ask_all(other_rules());
}

TEST_CASE("amd: captures and streams are as the column of the runtime's release says") {
  ask_all(stream_rules());
}

TEST_CASE("amd: handles, pointers and flags are as the column of the runtime's release says") {
  ask_all(runtime_rules());
}

TEST_CASE("amd: copies of several devices are as the column of the runtime's release says") {
  ask_all(copy_rules());
}
