// SPDX-License-Identifier: MIT
// Tables of the pages are written from capability/traits.def and providers/hip_surface.def.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <utility>

#include "releases.hpp"

namespace hipvmm::test {
namespace {

/// Names as code and issues as links, but code and links as they are.
std::string as_markdown(const std::string& text) {
  static const std::regex marked{R"(`[^`]*`|\[[^\]]*\]\([^)]*\)|([\w.-]+/[\w.-]+)?#(\d+)|)"
                                 R"((~\w+|\w+(::~?\w+)+|\w+_\w+|hip[A-Z]\w*|\w+(?=\(\)))(\(\))?)"};
  std::string page, repository;
  auto rest = text.begin();
  for (std::sregex_iterator at{rest, text.end(), marked}; at != std::sregex_iterator{}; ++at) {
    const std::string word = at->str();
    page.append(rest, (*at)[0].first);
    rest = (*at)[0].second;
    if ((*at)[1].matched) repository = at->str(1);
    if ((*at)[2].matched)
      page += '[' + word + "](https://github.com/" + repository + "/issues/" + at->str(2) + ')';
    else
      page += (*at)[3].matched ? '`' + word + '`' : word;
  }
  return page.append(rest, text.end());
}

void add_name(std::string& list, std::string_view name) {
  list.append(list.empty() ? "`" : ", `").append(name).append("`");
}

void add_row(std::string& rows, std::initializer_list<std::string_view> cells) {
  for (const std::string_view each : cells) rows += "| " + as_markdown(std::string{each}) + ' ';
  rows += "|\n";
}

/// The table of `page` that begins with the line `head` has these rows and no others.
void check_table(const std::string& page, const std::string& head, const std::string& rows) {
  const std::string path = HIPVMM_DOCS "/" + page;
  std::ifstream file{path};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  const std::size_t begin = text.find("| --- |", text.find(head + '\n'));
  REQUIRE(begin != std::string::npos);
  const std::size_t first = text.find('\n', begin) + 1;
  const std::size_t length = text.find("\n\n", first - 1) + 1 - first;
  INFO("write it anew: HIPVMM_TEST_WRITE_PAGE=1 ctest -R \"pages: \"");
  CHECK(text.substr(first, length) == rows);
  if (std::getenv("HIPVMM_TEST_WRITE_PAGE") == nullptr) return;
  std::ofstream{path} << text.replace(first, length, rows);
}

}  // namespace

TEST_CASE("pages: each trait is a row") {
  std::string rows;
  for (const trait_row& each : trait_table) {
    CHECK_FALSE((each.effect.empty() || each.reports.empty()));
    add_row(rows, {std::string{each.name} + (each.when_unknown ? "" : "\\*"), each.probe,
                   each.reports, each.response});
  }
  check_table("reference/capability.md", "| trait | the probe | no on | hipvmm without it |", rows);
}

TEST_CASE("pages: each HIP function that differs is a row") {
  constexpr std::pair<std::string_view, std::string_view> functions[] = {
#define HIPVMM_HIP_USED(function, file, ...) {#function, "" __VA_ARGS__},
#define HIPVMM_HIP_OFFERED(...)
#include "providers/hip_surface.def"
  };
  std::string rows;
  for (const auto& [name, text] : functions)
    if (!text.empty()) add_row(rows, {name, text});
  check_table("reference/hip_surface.md", "| function | behaviour, and the response of the home |",
              rows);
}

TEST_CASE("pages: each release is a row, by what it changes") {
  std::string rows;
  capability::record before;
  for (const std::string row : {"5.2 to 6.0", "6.1", "6.2 to 6.4", "7.0", "7.1", "7.2",
                                "7.3 to 7.13", "7.14", "10.0 to 10.2"}) {
    const capability::record found = record_of(row);
    CHECK(found.findings == record_of(row.substr(row.rfind(' ') + 1)).findings);
    std::string quirks, lost, gained;
    for (const quirk each : found.quirks) add_name(quirks, name_of(each));
    if (quirks.empty()) add_name(quirks, name_of(found.path));
    for (std::size_t i = 0; i < trait_count; ++i) {
      const finding was = before.findings[i], is = found.findings[i];
      if (was == finding::no && is == finding::yes) add_name(gained, trait_table[i].name);
      if (was != finding::no && is == finding::no) add_name(lost, trait_table[i].name);
    }
    add_row(rows, {row, quirks, lost, gained});
    before = found;
  }
  check_table("guides/rocm.md",
              "| ROCm | path or work-arounds | traits that end | traits that begin |", rows);
}

}  // namespace hipvmm::test
