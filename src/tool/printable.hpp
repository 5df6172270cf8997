// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hipvmm::tool {

/// The length of the UTF-8 character that begins at `at`; 0 if none does.
inline std::size_t character_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // An overlong form, a surrogate, or beyond the last character.
  const bool is_none = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                       (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return is_none ? 0 : length;
}

/// Escapes text for a terminal: control characters other than `kept`, marks that change the
/// direction of text, and bytes that are no UTF-8 become \xNN. Programs of this folder write no
/// text without it, because names of files and values in traces are foreign.
inline std::string printable(std::string_view text, std::string_view kept = {}) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_at(text, at);
    const std::string_view each = text.substr(at, length == 0 ? 1 : length);
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(each[i]); };
    const bool is_control = length == 1 && (byte(0) < ' ' || byte(0) == 0x7f);
    const bool is_upper_control = length == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;
    // U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069
    const bool is_direction = length == 3 && byte(0) == 0xe2 &&
                              ((byte(1) == 0x80 && (byte(2) == 0x8e || byte(2) == 0x8f ||
                                                    (byte(2) >= 0xa8 && byte(2) <= 0xae))) ||
                               (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9));
    if (length != 0 && !is_upper_control && !is_direction &&
        (!is_control || kept.find(each[0]) != std::string_view::npos)) {
      result += each;
    } else {
      for (std::size_t i = 0; i < each.size(); ++i)
        result.append("\\x").append(1, digits[byte(i) / 16]).append(1, digits[byte(i) % 16]);
    }
    at += each.size();
  }
  return result;
}

}  // namespace hipvmm::tool
