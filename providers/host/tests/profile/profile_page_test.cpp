// SPDX-License-Identifier: MIT
// The page of the profiles' answers is written from the tables that profile_test.cpp asks.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "profile_rules.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t line_length = 100;

std::string text_of(const answer& given) {
  if (given == crashes) return "the process ends";
  if (!given.is_code()) return std::to_string(given);
  if (given == hipSuccess) return "success";
  const std::string name = hipGetErrorName(static_cast<hipError_t>(int{given}));
  return '`' + name.substr(std::string{"hipError"}.size()) + '`';
}

// "success: strict, 6.2; `InvalidValue`: 7.1", each answer in the order of the first profile.
std::string answers_of(const rule& asked) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (std::size_t i = 0; i < profile_names.size(); ++i) {
    if (asked.answers[i] == no_answer) continue;
    std::string profile{profile_names[i]};
    if (profile.starts_with("rocm-")) profile.erase(0, std::string{"rocm-"}.size());
    // A ROCm profile says the same number whatever the headers are.
    const bool depends_on_headers = i == 0 && asked.answers[i] == release_of_headers;
    const std::string text =
        depends_on_headers ? "that of the HIP headers" : text_of(asked.answers[i]);
    bool is_known = false;
    for (auto& [answer_text, profiles] : groups) {
      if (answer_text != text) continue;
      profiles += ", " + profile;
      is_known = true;
    }
    if (!is_known) groups.emplace_back(text, profile);
  }
  std::string all;
  for (const auto& [text, profiles] : groups) {
    all += (all.empty() ? "" : "; ") + text + ": " + profiles;
  }
  return all;
}

void add_entry(std::string& page, const std::string& text) {
  std::istringstream words{text};
  std::string line = "-";
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > line_length) {
      page += line + '\n';
      line = " ";
    }
    line += ' ' + word;
  }
  page += line + '\n';
}

std::string page_of_answers() {
  std::string page =
      "# What each profile answers\n\n"
      "Written from the tables in `providers/host/tests/profile` by `test_profile` with\n"
      "`HIPVMM_TEST_WRITE_PAGE=1`, which fails where this page differs. [Profiles](profiles.md) "
      "says "
      "what\nthe profiles are. Codes are without `hipError`; numbers are what the question asks "
      "for; 5.7 to 7.14\nare releases of ROCm. A profile that is not named does not have the "
      "question. The source is last.\n";
  const std::pair<const char*, std::span<const rule>> parts[] = {
      {"Virtual memory", virtual_memory_rules()},
      {"Devices, pools and other memory", other_rules()},
      {"Capture and waiting", stream_rules()},
      {"What AMD's runtime answered", runtime_rules()}};
  for (const auto& [title, rules] : parts) {
    page += std::string{"\n## "} + title + "\n\n";
    for (const rule& each : rules) {
      add_entry(page, "**" + std::string{each.question} + "**: " + answers_of(each) + ". *" +
                          std::string{each.source} + "*");
    }
  }
  return page;
}

}  // namespace

TEST_CASE("profile: the page of answers is what the tables say") {
  const char* const path = HIPVMM_PAGE_OF_ANSWERS;
  const std::string expected = page_of_answers();
  if (std::getenv("HIPVMM_TEST_WRITE_PAGE") != nullptr) std::ofstream{path} << expected;
  std::ifstream file{path};
  const std::string found{std::istreambuf_iterator<char>{file}, {}};
  INFO("write it anew: HIPVMM_TEST_WRITE_PAGE=1 ctest -R \"the page of answers\"");
  CHECK(found == expected);
}
