// SPDX-License-Identifier: MIT
#include "capability/capability_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/text/nearest_name.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::string_view reason_mark = "  # ";

struct cost_key {
  std::string_view name;
  std::int64_t call_costs::*place;
};
constexpr std::array cost_keys{cost_key{"cost_reserve", &call_costs::reserve},
                               cost_key{"cost_create", &call_costs::create},
                               cost_key{"cost_map", &call_costs::map},
                               cost_key{"cost_set_access", &call_costs::set_access},
                               cost_key{"cost_unmap", &call_costs::unmap},
                               cost_key{"cost_release", &call_costs::release},
                               cost_key{"cost_free", &call_costs::free}};

std::optional<std::pair<std::int64_t, std::string_view>> number_before(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return std::nullopt;
  return std::pair{value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<std::int64_t> number_in(std::string_view text) {
  const auto found = number_before(text);
  if (!found || !found->second.empty()) return std::nullopt;
  return found->first;
}

// An hour; longer is a mistake of the writer.
constexpr std::int64_t longest_time = std::int64_t{3600} * 1'000'000'000;

std::optional<std::chrono::nanoseconds> time_in(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units{
      {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
  const auto found = number_before(text);
  if (!found) return std::nullopt;
  for (const auto& [unit, length] : units)
    if (found->second == unit && found->first <= longest_time / length)
      return std::chrono::nanoseconds{found->first * length};
  return std::nullopt;
}

std::optional<finding> finding_in(std::string_view text) {
  for (const finding each : {finding::unknown, finding::no, finding::yes})
    if (text == name_of(each)) return each;
  return std::nullopt;
}

std::optional<trait> trait_named(std::string_view name) {
  for (std::size_t i = 0; i < trait_count; ++i)
    if (name == name_of(static_cast<trait>(i))) return static_cast<trait>(i);
  return std::nullopt;
}

std::string known_keys(keys known) {
  std::string text;
  for (std::size_t i = 0; i < trait_count; ++i)
    text.append(name_of(static_cast<trait>(i))).append(", ");
  text += "each yes, no or unknown";
  if (known == keys::all) text += ", minimum_granularity, recommended_granularity";
  for (const cost_key& each : cost_keys) text.append(", ").append(each.name);
  return text +
         " in nanoseconds, descriptors_per_chunk=NUMBER and visibility_delay=TIME, such as 2ms";
}

std::string nearest_key(std::string_view key, keys known) {
  std::vector<std::string> names{"descriptors_per_chunk", "visibility_delay"};
  for (std::size_t i = 0; i < trait_count; ++i) names.emplace_back(name_of(static_cast<trait>(i)));
  for (const cost_key& each : cost_keys) names.emplace_back(each.name);
  if (known == keys::all)
    names.insert(names.end(), {"minimum_granularity", "recommended_granularity"});
  return nearest_name(key, names);
}

[[noreturn]] void reject(std::string_view line, keys known) {
  const std::string_view key = line.substr(0, line.find('='));
  if (const std::string nearest = nearest_key(key, known); !nearest.empty() && nearest != key)
    throw std::invalid_argument{"\"" + std::string{line.substr(0, 200)} +
                                "\" is not understood; did you mean " + nearest + "?"};
  throw std::invalid_argument{"\"" + std::string{line.substr(0, 200)} +
                              "\" is not understood; known are " + known_keys(known)};
}

void read_number(std::string_view line, std::string_view key, std::string_view value, keys known,
                 capability::record& found) {
  if (key == "visibility_delay") {
    const auto time = time_in(value);
    if (!time) reject(line, known);
    found.visibility_delay = *time;
    return;
  }
  const std::optional<std::int64_t> number = number_in(value);
  if (!number) reject(line, known);
  if (key == "descriptors_per_chunk" && *number <= 1000) {
    found.descriptors_per_chunk = static_cast<int>(*number);
    return;
  }
  if (known == keys::all && (key == "minimum_granularity" || key == "recommended_granularity")) {
    auto& place =
        key == "minimum_granularity" ? found.minimum_granularity : found.recommended_granularity;
    place = static_cast<std::size_t>(*number);
    return;
  }
  const auto cost = std::ranges::find(cost_keys, key, &cost_key::name);
  if (cost == cost_keys.end() || *number > longest_time) reject(line, known);
  found.costs.*cost->place = *number;
}

}  // namespace

std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char each) { return each == '\n' || each == '\r'; }, ' ');
  return text;
}

std::string line_of(const capability::record& found, trait which) {
  return std::string{name_of(which)}
      .append("=")
      .append(name_of(found.findings[index_of(which)]))
      .append(reason_mark)
      .append(on_one_line(found.reasons[index_of(which)]))
      .append("\n");
}

std::string number_lines_of(const capability::record& found) {
  std::string text;
  const auto add = [&text](std::string_view key, auto value, const char* unit = "") {
    text.append(key).append("=").append(std::to_string(value)).append(unit).append("\n");
  };
  if (found.minimum_granularity != 0) {
    add("minimum_granularity", found.minimum_granularity);
    add("recommended_granularity", found.recommended_granularity);
  }
  if (found.descriptors_per_chunk >= 0) add("descriptors_per_chunk", found.descriptors_per_chunk);
  if (found.visibility_delay.count() != 0)
    add("visibility_delay", found.visibility_delay.count(), "ns");
  for (const cost_key& each : cost_keys)
    if (found.costs.*each.place != 0) add(each.name, found.costs.*each.place);
  return text;
}

void read_line(std::string_view line, keys known, persistence holds, const std::string& otherwise,
               capability::record& found) {
  const std::size_t mark = std::min(line.find(reason_mark), line.size());
  const std::string_view pair = line.substr(0, mark);
  const std::size_t equals = std::min(pair.find('='), pair.size());
  const std::string_view key = pair.substr(0, equals);
  if (equals == pair.size()) reject(line, known);
  const std::string_view value = pair.substr(equals + 1);
  const std::optional<trait> which = trait_named(key);
  if (!which) return read_number(line, key, value, known, found);
  const std::optional<finding> what = finding_in(value);
  if (!what) reject(line, known);
  found.set(*which, *what,
            mark == line.size() ? otherwise : std::string{line.substr(mark + reason_mark.size())},
            holds);
}

}  // namespace hipvmm::detail
