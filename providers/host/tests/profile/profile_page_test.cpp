// SPDX-License-Identifier: MIT
// The page of the profiles' answers is written from the tables that profile_test.cpp asks.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profile_rules.hpp"

using namespace hipvmm::test;

namespace {

std::string text_of(const answer& given) {
  if (given == crashes) return "the process ends";
  if (!given.is_code()) return std::to_string(given);
  if (given == hipSuccess) return "success";
  const std::string name = hipGetErrorName(static_cast<hipError_t>(int{given}));
  return '`' + name.substr(std::string{"hipError"}.size()) + '`';
}

struct answer_group {
  std::string text;
  std::string profiles;
  int count = 0;
};

// "success; `InvalidValue`: 7.1; not asked: 5.7": the answer of most profiles first and without
// them, the others in the order of their first profile.
std::string answers_of(const rule& asked) {
  std::vector<answer_group> groups;
  for (std::size_t i = 0; i < profile_names.size(); ++i) {
    std::string profile{profile_names[i]};
    if (profile.starts_with("rocm-")) profile.erase(0, std::string{"rocm-"}.size());
    // A ROCm profile says the same number with any headers.
    const bool depends_on_headers = i == 0 && asked.answers[i] == release_of_headers;
    const std::string text = asked.answers[i] == no_answer ? "not asked"
                             : depends_on_headers          ? "that of the HIP headers"
                                                           : text_of(asked.answers[i]);
    auto known = std::find_if(groups.begin(), groups.end(),
                              [&](const answer_group& each) { return each.text == text; });
    if (known == groups.end()) known = groups.insert(known, {text, "", 0});
    known->profiles += (known->count++ == 0 ? "" : ", ") + profile;
  }
  const auto most = std::max_element(
      groups.begin(), groups.end(),
      [](const answer_group& left, const answer_group& right) { return left.count < right.count; });
  std::string all;
  if (most->count > 1) {
    all = most->text;
    groups.erase(most);
  }
  for (const answer_group& each : groups)
    all += (all.empty() ? "" : "; ") + each.text + ": " + each.profiles;
  return all;
}

std::string page_of_answers() {
  std::string page =
      "# What each profile answers\n\n"
      "Written from the tables in `providers/host/tests/profile` by `test_profile` with\n"
      "`HIPVMM_TEST_WRITE_PAGE=1`, which fails where this page differs. [Profiles](profiles.md) "
      "says "
      "what\nthe profiles are. Codes are without `hipError`; numbers are what the question asks "
      "for; 5.7 to 7.14\nare releases of ROCm. The answer without profiles is that of all "
      "others.\n";
  const std::pair<const char*, std::span<const rule>> parts[] = {
      {"Virtual memory", virtual_memory_rules()},
      {"Devices, pools and other memory", other_rules()},
      {"Capture and waiting", stream_rules()},
      {"What AMD's runtime answered", runtime_rules()},
      {"Copies that name several devices", copy_rules()}};
  for (const auto& [title, rules] : parts) {
    page +=
        std::string{"\n## "} + title + "\n\n| question | answer | source |\n| --- | --- | --- |\n";
    for (const rule& each : rules) {
      page += "| " + std::string{each.question} + " | " + answers_of(each) + " | " +
              std::string{each.source} + " |\n";
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
