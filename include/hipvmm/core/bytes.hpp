// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <hipvmm/version.hpp>  // IWYU pragma: keep: refuses compilers before C++17

namespace hipvmm {

inline constexpr std::size_t KiB = std::size_t{1} << 10;
inline constexpr std::size_t MiB = std::size_t{1} << 20;
inline constexpr std::size_t GiB = std::size_t{1} << 30;
inline constexpr std::size_t TiB = std::size_t{1} << 40;

constexpr bool is_power_of_two(std::size_t value) noexcept {
  return value != 0 && (value & (value - 1)) == 0;
}

/// Rounds `bytes` down to a multiple of `granularity` (> 0).
constexpr std::size_t align_down(std::size_t bytes, std::size_t granularity) noexcept {
  return bytes - bytes % granularity;
}

/// Rounds `bytes` up to a multiple of `granularity` (> 0). Throws: std::length_error on overflow.
std::size_t align_up(std::size_t bytes, std::size_t granularity);

/// Returns the bytes of `count` elements. Throws: std::length_error on overflow.
std::size_t bytes_for(std::size_t count, std::size_t element_bytes);

/// Throws: std::length_error on overflow.
std::size_t add_bytes(std::size_t a, std::size_t b);

/// Formats a byte count for people, in binary units: `"1536 B"`, `"2.00 MiB"`, in every locale.
std::string format_bytes(std::size_t bytes);

/// Formats a limit as format_bytes() does; 2^63 bytes and more are `"unlimited"`.
std::string format_limit(std::size_t bytes);

/// Parses a byte count such as `"512"`, `"100 MB"` or `"1.5GiB"`; a fraction of a byte is dropped.
/// Units in any case: KB to EB are powers of 1000, KiB to EiB of 1024; without one, bytes.
/// Throws: std::invalid_argument for other text; std::length_error when it exceeds std::size_t.
std::size_t parse_bytes(std::string_view text);

}  // namespace hipvmm
