// SPDX-License-Identifier: MIT
#include <hipvmm/core/bytes.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>
#include <string>

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
  CHECK_THROWS_AS(align_up(largest, 2), std::length_error);
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
  CHECK(format_bytes(2 * MiB) == "2.00 MiB");
  CHECK(format_bytes(2 * MiB + 512 * KiB) == "2.50 MiB");
  CHECK(format_bytes(141 * GiB) == "141.00 GiB");
  CHECK(format_bytes(64 * TiB) == "64.00 TiB");
}

}  // namespace
}  // namespace hipvmm
