// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

namespace hipvmm::host_provider {

/// A whole number.
std::optional<std::size_t> parse_number(std::string_view text);
/// A whole number of bytes, or one followed by KiB, MiB, GiB or TiB.
std::optional<std::size_t> parse_bytes(std::string_view text);
/// A whole number followed by ns, us, ms or s.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);
/// A number from 0 to 1, such as 0.01.
std::optional<double> parse_probability(std::string_view text);

}  // namespace hipvmm::host_provider
