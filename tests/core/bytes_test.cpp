// SPDX-License-Identifier: MIT
#include <hipvmm/core/bytes.hpp>

#include <clocale>

#include "support/test.hpp"

namespace hipvmm {
namespace {

constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();

TEST_CASE("bytes: the units are powers of 1024") {
  CHECK(KiB == 1024);
  CHECK(MiB == 1024 * KiB);
  CHECK(GiB == 1024 * MiB);
  CHECK(TiB == 1024 * GiB);
}

TEST_CASE("bytes: powers of two are told from other numbers") {
  for (const std::size_t power : {std::size_t{1}, std::size_t{2}, 64 * KiB, TiB, largest / 2 + 1})
    CHECK(is_power_of_two(power));
  for (const std::size_t other : {std::size_t{0}, std::size_t{3}, 6 * KiB, largest})
    CHECK_FALSE(is_power_of_two(other));
}

TEST_CASE("bytes: align_down gives the multiple at or below") {
  CHECK(align_down(0, 4096) == 0);
  CHECK(align_down(4095, 4096) == 0);
  CHECK(align_down(4096, 4096) == 4096);
  CHECK(align_down(10, 3) == 9);
  CHECK(align_down(largest, 2) == largest - 1);
}

TEST_CASE("bytes: align_up gives the multiple at or above") {
  CHECK(align_up(0, 4096) == 0);
  CHECK(align_up(1, 4096) == 4096);
  CHECK(align_up(4096, 4096) == 4096);
  CHECK(align_up(10, 3) == 12);
  CHECK(align_up(largest - 1, 2) == largest - 1);
  CHECK(align_up(largest, 1) == largest);
}

TEST_CASE("bytes: align_up throws where the multiple does not fit") {
  CHECK_THROWS_WITH_AS(align_up(largest, 2),
                       "18446744073709551615 bytes, in multiples of 2, exceed the address space: "
                       "name fewer",
                       std::length_error);
  CHECK_THROWS_AS(align_up(largest - 1, 4096), std::length_error);
}

TEST_CASE("bytes: bytes_for multiplies") {
  CHECK(bytes_for(0, 8) == 0);
  CHECK(bytes_for(8, 0) == 0);
  CHECK(bytes_for(3, 100) == 300);
  CHECK(bytes_for(largest / 8, 8) == largest / 8 * 8);
  CHECK(bytes_for(largest, 1) == largest);
}

TEST_CASE("bytes: bytes_for throws where the product does not fit and names both factors") {
  CHECK_THROWS_AS(bytes_for(largest / 8 + 1, 8), std::length_error);
  CHECK_THROWS_AS(bytes_for(largest, largest), std::length_error);
  CHECK_THROWS_WITH_AS(bytes_for(largest, 3), doctest::Contains(std::to_string(largest).c_str()),
                       std::length_error);
  CHECK_THROWS_WITH_AS(bytes_for(largest, 3), doctest::Contains("of 3 bytes"), std::length_error);
}

TEST_CASE("bytes: add_bytes adds and throws where the sum does not fit") {
  CHECK(add_bytes(2, 3) == 5);
  CHECK(add_bytes(largest, 0) == largest);
  CHECK_THROWS_AS(add_bytes(largest, 1), std::length_error);
  CHECK_THROWS_AS(add_bytes(largest / 2 + 1, largest / 2 + 1), std::length_error);
}

TEST_CASE("bytes: format_bytes is exact for small counts and binary units for large ones") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1) == "1 B");
  CHECK(format_bytes(1536) == "1536 B");
  CHECK(format_bytes(10 * KiB - 1) == "10239 B");
  CHECK(format_bytes(10 * KiB) == "10.00 KiB");
  CHECK(format_bytes(2 * MiB) == "2.00 MiB");
  CHECK(format_bytes(2 * MiB + 512 * KiB) == "2.50 MiB");
  CHECK(format_bytes(141 * GiB) == "141.00 GiB");
  CHECK(format_bytes(64 * TiB) == "64.00 TiB");
  CHECK(format_bytes(largest) == "16777216.00 TiB");
}

TEST_CASE("bytes: format_limit names the limit that no memory reaches") {
  CHECK(format_limit(0) == "0 B");
  CHECK(format_limit(64 * TiB) == "64.00 TiB");
  CHECK(format_limit(largest / 2) == format_bytes(largest / 2));
  CHECK(format_limit(align_down(largest, 2 * MiB)) == "unlimited");
  CHECK(format_limit(largest) == "unlimited");
}

TEST_CASE("bytes: format_bytes writes a point in every locale, which parse_bytes reads") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  const char* found = nullptr;
  for (const char* const name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"})
    if (found == nullptr) found = std::setlocale(LC_NUMERIC, name);
  if (found == nullptr) MESSAGE("skipped: this machine has no locale with a decimal comma");
  const std::string text = format_bytes(2 * MiB + 512 * KiB);
  std::setlocale(LC_NUMERIC, before.c_str());
  CHECK(text == "2.50 MiB");
  CHECK(parse_bytes(text) == 2 * MiB + 512 * KiB);
}

TEST_CASE("parse_bytes: takes decimal and binary units, in capitals or not") {
  CHECK(parse_bytes("512") == 512);
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("512B") == 512);
  CHECK(parse_bytes("100 MB") == 100'000'000);
  CHECK(parse_bytes("4GiB") == 4 * GiB);
  CHECK(parse_bytes("4 \tgib") == 4 * GiB);
  CHECK(parse_bytes("3kb") == 3000);
  CHECK(parse_bytes("3KIB") == 3 * KiB);
  CHECK(parse_bytes("2TB") == 2'000'000'000'000);
  CHECK(parse_bytes("2TiB") == 2 * TiB);
  CHECK(parse_bytes("1 PB") == 1'000'000'000'000'000);
  CHECK(parse_bytes("16383PiB") == 16383 * (1024 * TiB));
  CHECK(parse_bytes("3eb") == 3'000'000'000'000'000'000);
  CHECK(parse_bytes("15EiB") == 15 * (1024 * 1024 * TiB));
}

TEST_CASE("parse_bytes: is exact with decimals, and drops part of a byte") {
  CHECK(parse_bytes("1.5 GB") == 1'500'000'000);
  CHECK(parse_bytes("1.GiB") == GiB);
  CHECK(parse_bytes("0.1GiB") == 107'374'182);
  CHECK(parse_bytes("7.99") == 7);
  CHECK(parse_bytes("9007199254740993") == 9007199254740993);
  CHECK(parse_bytes("0.99999999999999999999999999999999KB") == 999);
}

TEST_CASE("parse_bytes: other text throws invalid_argument and is named") {
  for (const char* const text : {"", " 1", "-1", "+1", "GiB", ".5GB", "1,5 GB", "4G", "4 Gi", "1e9",
                                 "1 GB/s", "1GiB ", "12 apples", "1 B B", "0x10"}) {
    CAPTURE(text);
    const std::string named = std::string{"'"} + text + "' is no size";
    CHECK_THROWS_WITH_AS(parse_bytes(text), doctest::Contains(named.c_str()),
                         std::invalid_argument);
  }
}

TEST_CASE("parse_bytes: what does not fit throws length_error") {
  CHECK(parse_bytes(std::to_string(largest)) == largest);
  for (const char* const text : {"18446744073709551616", "16EiB", "99999999999999999999999 B"})
    CHECK_THROWS_AS(parse_bytes(text), std::length_error);
}

}  // namespace
}  // namespace hipvmm
