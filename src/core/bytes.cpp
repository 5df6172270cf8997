// SPDX-License-Identifier: MIT
#include <hipvmm/core/bytes.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace hipvmm {
namespace {

constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();

struct unit {
  std::size_t bytes;
  const char* name;
};
constexpr std::array<unit, 4> written_units{
    {{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}}};
constexpr std::array<unit, 14> read_units{{{1, ""},
                                           {1, "b"},
                                           {1'000, "kb"},
                                           {1'000'000, "mb"},
                                           {1'000'000'000, "gb"},
                                           {1'000'000'000'000, "tb"},
                                           {1'000'000'000'000'000, "pb"},
                                           {1'000'000'000'000'000'000, "eb"},
                                           {KiB, "kib"},
                                           {MiB, "mib"},
                                           {GiB, "gib"},
                                           {TiB, "tib"},
                                           {1024 * TiB, "pib"},
                                           {1024 * 1024 * TiB, "eib"}}};

/// Independent of the locale, like lower().
bool is_digit(char each) noexcept { return each >= '0' && each <= '9'; }
char lower(char each) noexcept {
  return each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
}

std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

std::size_t bytes_of_unit(std::string_view name) {
  std::string wanted{name};
  std::transform(wanted.begin(), wanted.end(), wanted.begin(), lower);
  const auto found = std::ranges::find(read_units, wanted, &unit::name);
  return found == read_units.end() ? 0 : found->bytes;
}

}  // namespace

std::size_t align_up(std::size_t bytes, std::size_t granularity) {
  const std::size_t missing = (granularity - bytes % granularity) % granularity;
  if (missing > largest - bytes)
    throw std::length_error{std::to_string(bytes) + " bytes, in multiples of " +
                            std::to_string(granularity) + ", exceed the address space: name fewer"};
  return bytes + missing;
}

std::size_t bytes_for(std::size_t count, std::size_t element_bytes) {
  if (element_bytes != 0 && count > largest / element_bytes)
    throw std::length_error{std::to_string(count) + " elements of " +
                            std::to_string(element_bytes) + " bytes exceed the address space"};
  return count * element_bytes;
}

std::size_t add_bytes(std::size_t a, std::size_t b) {
  if (b > largest - a)
    throw std::length_error{std::to_string(a) + " + " + std::to_string(b) +
                            " exceeds the address space"};
  return a + b;
}

std::string format_bytes(std::size_t bytes) {
  for (const unit& unit : written_units) {
    if (bytes < unit.bytes || bytes < 10 * KiB) continue;
    std::array<char, 32> text;
    // Not snprintf, which writes a comma in some locales.
    const auto written = std::to_chars(text.data(), text.data() + text.size(),
                                       static_cast<double>(bytes) / static_cast<double>(unit.bytes),
                                       std::chars_format::fixed, 2);
    return std::string{text.data(), written.ptr}.append(" ").append(unit.name);
  }
  return std::to_string(bytes) + " B";
}

std::string format_limit(std::size_t bytes) {
  // Half is enough, because limits are rounded down to whole units.
  return bytes > largest / 2 ? "unlimited" : format_bytes(bytes);
}

std::size_t parse_bytes(std::string_view text) {
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  std::string_view decimals;
  if (!whole.empty() && !rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    decimals = take_digits(rest);
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  const std::size_t unit = bytes_of_unit(rest);
  if (whole.empty() || unit == 0)
    throw std::invalid_argument{"'" + std::string{text} +
                                "' is no size: write digits and a unit, such as 4194304, 100 MB "
                                "or 4MiB; KB to EB are powers of 1000, KiB to EiB of 1024"};

  // In integers, because a double keeps 53 bits. From the last decimal to the first, so that
  // dropping parts of a byte at each digit equals dropping them once.
  std::size_t part = 0;
  for (auto digit = decimals.rbegin(); digit != decimals.rend(); ++digit)
    part = (static_cast<std::size_t>(*digit - '0') * unit + part) / 10;
  std::size_t count = 0;
  const auto read = std::from_chars(whole.data(), whole.data() + whole.size(), count);
  if (read.ec != std::errc{} || count > largest / unit)
    throw std::length_error{"'" + std::string{text} + "' exceeds the address space"};
  return add_bytes(count * unit, part);
}

}  // namespace hipvmm
