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
#include <string_view>
#include <utility>
#include <vector>

#include "profile_rules.hpp"

using namespace hipvmm::test;

namespace {

/// The questions that were put to AMD's runtime and ROCr 7.2.4 on AMD's emulator on 2026-11-29. A
/// new one is put there too, or is named below as not to be seen.
constexpr std::size_t questions_asked = 163;

constexpr const char* otherwise = "†";
constexpr const char* not_seen = "‡";  // no right is enforced, no mapping holds memory there

/// How questions begin whose answer there was not that of rocm-7.2, and the page's sign for them.
/// bench/results/2026-11-29-amd-emulator.txt explains each.
constexpr std::pair<std::string_view, const char*> exceptions[] = {
    {"granules still in use after the last unmap", not_seen},
    {"hipMemSetAccess for a device without a link", otherwise},
    {"hipMemRelease once too often", otherwise},
    {"hipIpcGetMemHandle inside an allocation", otherwise},
    {"hipMemRangeGetAttribute of the coherency of hipMalloc memory", otherwise},
    {"hipMemPoolExportPointer of hipMalloc memory", otherwise},
    {"wishes for the addresses behind a reservation", otherwise},
    {"hipStreamSynchronize of a destroyed stream", otherwise},
    {"hipStreamDestroy of a destroyed stream", otherwise},
    {"hipEventRecord in a destroyed stream", otherwise},
    {"hipMemcpyAsync in a destroyed stream", otherwise},
    {"hipMemsetAsync in a destroyed stream", otherwise},
    {"a copy from the host, in a stream of device 1", otherwise},
    {"a copy between a mapping and hipMalloc memory", otherwise},
    {"a copy between mappings of two devices, in a stream of the source's", otherwise},
    {"a copy between mappings of two devices, in a stream of the target's", otherwise},
    {"a copy between two mappings of one device", otherwise},
    {"a copy to the host, in a stream of device 1", not_seen},
    {"the same copy in a stream of the other device", not_seen},
    {"the same copy in a stream of the target's device", not_seen},
    {"the same copy in a stream of the source's device", not_seen},
    {"a fill of a peer's hipMalloc memory", not_seen},
    {"use of a pool's memory by a device whose right", not_seen},
};

std::string sign_of(const rule& asked) {
  for (const auto& [begin, sign] : exceptions)
    if (asked.question.starts_with(begin)) return sign;
  return "";
}

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
      "others.\n\nAMD's runtime and ROCr 7.2.4 on AMD's emulator\n"
      "([results](../../../bench/results/2026-11-29-amd-emulator.txt)) answered as 7.2, but not\n"
      "if the source ends in †; ‡ could not be seen there.\n";
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
              std::string{each.source} + sign_of(each) + " |\n";
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

TEST_CASE("profile: each question was put to AMD's emulator or is marked") {
  const std::vector<rule> all = all_rules();
  CHECK(all.size() == questions_asked);
  for (const auto& exception : exceptions) {
    CAPTURE(exception.first);
    CHECK(std::ranges::count_if(all, [&](const rule& each) {
            return each.question.starts_with(exception.first);
          }) == 1);
  }
}
