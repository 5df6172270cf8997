// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>
#include "core/text/nearest_name.hpp"

// Options as text: "release_threshold=4GiB,maximum=80%".
namespace hipvmm::c {

struct option {
  std::string name;
  std::string allowed;  ///< in messages
  /// Throws: std::invalid_argument or std::length_error for a value that is not allowed.
  std::function<void(std::string_view value)> set;
};

/// Spaces around names and values are ignored. `of` names the object in messages, such as "a pool".
/// Throws: bad_argument, which names the option, the value and the nearest or the allowed ones, if
/// a name is unknown or comes twice, or a value is refused.
void apply_options(const std::string& of, std::string_view text, const std::vector<option>& table);

/// Whether `text` names an option, even if parts of it are invalid.
[[nodiscard]] bool has_option(std::string_view text, std::string_view name) noexcept;

// Parsers of values. Each throws std::invalid_argument or std::length_error for an invalid one.

/// A number from 0 to 100 and a percent sign.
[[nodiscard]] double percentage_value(std::string_view value);

inline constexpr const char* size_allowed =
    "bytes such as 64MiB or 4GiB, or a part of the device's memory such as 80%";
/// Bytes, or a percentage of the total memory of `device`.
[[nodiscard]] std::size_t size_value(std::string_view value, device_ref device);

inline constexpr const char* limit_allowed =
    "bytes such as 4GiB, a part of the device's memory such as 80%, or unlimited";
/// The same; `unlimited` is the greatest std::size_t.
[[nodiscard]] std::size_t limit_value(std::string_view value, device_ref device);

inline constexpr const char* flag_allowed = "on or off";
/// Also true, yes and 1; false, no and 0.
[[nodiscard]] bool flag_value(std::string_view value);

/// A number without sign. Throws also above `most`.
[[nodiscard]] std::uint64_t number_value(std::string_view value, std::uint64_t most);

inline constexpr const char* list_allowed = "numbers such as 0+1+2";
/// Numbers up to `most`, separated by plus signs.
[[nodiscard]] std::vector<unsigned> list_value(
    std::string_view value, unsigned most = std::numeric_limits<unsigned>::max());

inline constexpr const char* access_allowed =
    "devices and rights such as 1:read_write+2:read, all, or all:read";
/// `all` is every device that reaches memory of `owner`. Without a named right: read_write.
[[nodiscard]] access_list access_value(std::string_view value, device_ref owner);

inline constexpr const char* right_allowed = "none, read or read_write";
[[nodiscard]] access_right right_value(std::string_view value);

[[noreturn]] void refuse_value(const std::string& why);

/// Throws: std::invalid_argument that names the nearest of them.
template <typename Value>
[[nodiscard]] Value choice_value(std::string_view value,
                                 const std::vector<std::pair<std::string_view, Value>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, meaning] : choices) {
    if (name == value) return meaning;
    names.emplace_back(name);
  }
  const std::string nearest = detail::nearest_name(value, names);
  refuse_value("it is none of the names" + (nearest.empty() ? "" : ", the nearest is " + nearest));
}

template <typename Choice>
[[nodiscard]] option choice_option(const char* name, Choice& to,
                                   std::vector<std::pair<std::string_view, Choice>> choices) {
  std::string allowed;
  for (const auto& each : choices)
    allowed.append(&each == &choices.front()  ? ""
                   : &each == &choices.back() ? " or "
                                              : ", ")
        .append(each.first);
  return {name, allowed, [&to, all = std::move(choices)](std::string_view value) {
            to = choice_value<Choice>(value, all);
          }};
}

}  // namespace hipvmm::c
