// SPDX-License-Identifier: MIT
#include "c/options.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <hipvmm/core/bytes.hpp>
#include "c/guard.hpp"
#include "core/text/nearest_name.hpp"

namespace hipvmm::c {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr const char* spaces = " \t\n";
  const std::size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

template <typename Each>
void for_each_part(std::string_view text, char separator, Each each) {
  for (;;) {
    const std::size_t end = text.find(separator);
    each(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

std::string advice_on(std::string_view name, const std::vector<option>& table) {
  std::vector<std::string> names;
  for (const option& each : table) names.push_back(each.name);
  return detail::name_advice(name, names);
}

void set(const std::string& of, const option& chosen, std::string_view value) {
  const auto refuse = [&](const std::exception& why) {
    throw bad_argument{"options of " + of + ": " + chosen.name + "=" + std::string{value} +
                       " is refused: " + why.what() + "; allowed: " + chosen.allowed};
  };
  try {
    chosen.set(value);
  } catch (const std::invalid_argument& why) {
    refuse(why);
  } catch (const std::length_error& why) {
    refuse(why);
  }
}

}  // namespace

void apply_options(const std::string& of, std::string_view text, const std::vector<option>& table) {
  if (trimmed(text).empty()) return;
  std::vector<const option*> seen;
  for_each_part(text, ',', [&](std::string_view entry) {
    const std::size_t equals = entry.find('=');
    const bool has_value = equals != std::string_view::npos;
    const std::string_view name = trimmed(entry.substr(0, equals));
    const auto chosen = std::ranges::find(table, name, &option::name);
    if (chosen == table.end() && (has_value || !name.empty()))
      throw bad_argument{"options of " + of + ": there is no '" + std::string{name} + "'; " +
                         advice_on(name, table)};
    if (!has_value)
      throw bad_argument{"options of " + of + ": '" + std::string{name} +
                         "' has no value; write name=value, separated by commas"};
    if (std::find(seen.begin(), seen.end(), &*chosen) != seen.end())
      throw bad_argument{"options of " + of + ": " + chosen->name + " is given twice"};
    seen.push_back(&*chosen);
    set(of, *chosen, trimmed(entry.substr(equals + 1)));
  });
}

bool has_option(std::string_view text, std::string_view name) noexcept {
  bool found = false;
  for_each_part(text, ',', [&](std::string_view entry) {
    found = found || trimmed(entry.substr(0, entry.find('='))) == name;
  });
  return found;
}

void refuse_value(const std::string& why) { throw std::invalid_argument{why}; }

double percentage_value(std::string_view value) {
  double percent = -1;
  if (value.ends_with('%')) {
    const char* const sign = &value.back();
    if (std::from_chars(value.data(), sign, percent).ptr != sign) percent = -1;
  }
  if (!(percent >= 0 && percent <= 100)) refuse_value("a percentage is from 0% to 100%");
  return percent;
}

std::size_t size_value(std::string_view value, device_ref device) {
  if (!value.ends_with('%')) return parse_bytes(value);
  return static_cast<std::size_t>(static_cast<long double>(device.total_memory()) *
                                  percentage_value(value) / 100);
}

std::size_t limit_value(std::string_view value, device_ref device) {
  if (value == "unlimited") return std::numeric_limits<std::size_t>::max();
  return size_value(value, device);
}

bool flag_value(std::string_view value) {
  return choice_value<bool>(value, {{"on", true},
                                    {"off", false},
                                    {"true", true},
                                    {"false", false},
                                    {"yes", true},
                                    {"no", false},
                                    {"1", true},
                                    {"0", false}});
}

std::uint64_t number_value(std::string_view value, std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc::result_out_of_range || (error == std::errc{} && number > most))
    throw std::invalid_argument{"at most " + std::to_string(most)};
  if (error != std::errc{} || end != value.data() + value.size()) refuse_value("it is no number");
  return number;
}

std::vector<unsigned> list_value(std::string_view value, unsigned most) {
  std::vector<unsigned> numbers;
  for_each_part(value, '+', [&](std::string_view part) {
    numbers.push_back(static_cast<unsigned>(number_value(trimmed(part), most)));
  });
  return numbers;
}

access_right right_value(std::string_view value) {
  return choice_value<access_right>(value, {{"none", access_right::none},
                                            {"read", access_right::read},
                                            {"read_write", access_right::read_write}});
}

access_list access_value(std::string_view value, device_ref owner) {
  std::vector<access_desc> entries;
  for_each_part(value, '+', [&](std::string_view part) {
    const std::size_t colon = part.find(':');
    const std::string_view device = trimmed(part.substr(0, colon));
    const access_right right = colon == std::string_view::npos
                                   ? access_right::read_write
                                   : right_value(trimmed(part.substr(colon + 1)));
    if (device == "all") {
      const access_list reachable = all_reachable_peers(owner, right);
      entries.insert(entries.end(), reachable.entries().begin(), reachable.entries().end());
    } else {
      const std::uint64_t ordinal = number_value(device, std::numeric_limits<int>::max());
      entries.push_back({device_ref{static_cast<int>(ordinal)}, right});
    }
  });
  return access_list{std::move(entries)};
}

}  // namespace hipvmm::c
