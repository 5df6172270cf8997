// SPDX-License-Identifier: MIT
#include "core/text/nearest_name.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace hipvmm::detail {
namespace {

std::string folded(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string text{name};
  for (char& each : text) {
    if (each == '_') each = '-';
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  }
  return text;
}

std::size_t edits_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> above(to.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  std::vector<std::size_t> row = above;
  std::vector<std::size_t> before_above;
  for (std::size_t i = 0; i < from.size(); ++i) {
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      row[j + 1] = std::min(
          {above[j + 1] + 1, row[j] + 1, above[j] + (from[i] == to[j] ? std::size_t{0} : 1)});
      if (i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j])
        row[j + 1] = std::min(row[j + 1], before_above[j - 1] + 1);
    }
    before_above = above;
    above = row;
  }
  return above.back();
}

std::size_t different_end(std::string_view from, std::string_view to) {
  const auto equal = std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first;
  return static_cast<std::size_t>(from.end() - equal);
}

bool contains_other(std::string_view a, std::string_view b) {
  const std::string_view shorter = a.size() < b.size() ? a : b;
  const std::string_view longer = a.size() < b.size() ? b : a;
  return shorter.size() > 2 && longer.find(shorter) != std::string_view::npos;
}

}  // namespace

std::string nearest_name(std::string_view wrong, const std::vector<std::string>& names) {
  constexpr std::size_t longest = 64;  // no name is longer
  if (wrong.size() > longest) return {};
  const std::string asked = folded(wrong);
  std::string nearest;
  std::pair<std::size_t, std::size_t> fewest;
  for (const std::string& each : names) {
    const std::string known = folded(each);
    const std::size_t edits = edits_between(asked, known);
    const bool is_near =
        3 * edits <= std::max(asked.size(), known.size()) || contains_other(asked, known);
    // Of equally near names the one that begins alike: for limt limit, and not list.
    const std::pair difference{edits, different_end(asked, known)};
    if (!is_near || (!nearest.empty() && difference >= fewest)) continue;
    nearest = each;
    fewest = difference;
  }
  return nearest;
}

std::string name_advice(std::string_view wrong, const std::vector<std::string>& names) {
  if (const std::string nearest = nearest_name(wrong, names); !nearest.empty())
    return "did you mean " + nearest + "?";
  std::string text = "choose one of ";
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

}  // namespace hipvmm::detail
