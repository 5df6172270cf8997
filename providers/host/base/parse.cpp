// SPDX-License-Identifier: MIT
#include "base/parse.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <system_error>

namespace hipvmm::host_provider {
namespace {

struct unit {
  std::string_view suffix;
  std::size_t factor;
};

template <class Number>
std::optional<Number> parse_all_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::size_t> product(std::string_view number, std::size_t factor) {
  const std::optional<std::size_t> count = parse_number(number);
  if (!count || *count > std::numeric_limits<std::size_t>::max() / factor) return std::nullopt;
  return *count * factor;
}

}  // namespace

std::optional<std::size_t> parse_number(std::string_view text) {
  return parse_all_of<std::size_t>(text);
}

std::optional<std::size_t> parse_bytes(std::string_view text) {
  constexpr std::size_t one = 1;
  constexpr std::array units{unit{"KiB", one << 10U}, unit{"MiB", one << 20U},
                             unit{"GiB", one << 30U}, unit{"TiB", one << 40U}};
  for (const unit& each : units) {
    if (!text.ends_with(each.suffix)) continue;
    text.remove_suffix(each.suffix.size());
    return product(text, each.factor);
  }
  return parse_number(text);
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  // "s" ends the other three as well, so it comes last.
  constexpr std::array units{unit{"ns", 1}, unit{"us", 1'000}, unit{"ms", 1'000'000},
                             unit{"s", 1'000'000'000}};
  for (const unit& each : units) {
    if (!text.ends_with(each.suffix)) continue;
    text.remove_suffix(each.suffix.size());
    const std::optional<std::size_t> nanoseconds = product(text, each.factor);
    if (!nanoseconds || *nanoseconds > std::numeric_limits<std::int64_t>::max() / 2) break;
    return std::chrono::nanoseconds{static_cast<std::int64_t>(*nanoseconds)};
  }
  return std::nullopt;
}

std::optional<double> parse_probability(std::string_view text) {
  const std::optional<double> value = parse_all_of<double>(text);
  return value && *value >= 0 && *value <= 1 ? value : std::nullopt;
}

}  // namespace hipvmm::host_provider
