// SPDX-License-Identifier: MIT
#include <hipvmm/compat/registration.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace hipvmm::test {
namespace {

/// "address+bytes@chunk" of each piece.
std::string cut(std::uint64_t address, std::size_t bytes) {
  static const std::vector<registered_bytes> chunks{{100, 50, 0}, {150, 10, 1}, {200, 20, 2}};
  std::string result;
  for (const registered_bytes& each : cut_by_chunk(chunks, address, bytes))
    result += std::to_string(each.address) + '+' + std::to_string(each.bytes) + '@' +
              std::to_string(each.chunk) + ' ';
  return result;
}

TEST_CASE("cut_by_chunk: a piece for each chunk, and no byte that is in none") {
  CHECK(cut(100, 50) == "100+50@0 ");
  CHECK(cut(149, 2) == "149+1@0 150+1@1 ");
  CHECK(cut(120, 40) == "120+30@0 150+10@1 ");
  CHECK(cut(219, 1) == "219+1@2 ");
  CHECK(cut(500, 0).empty());
  for (const std::uint64_t address : {99, 160, 199, 220})
    CHECK_THROWS_WITH_AS(cut(address, 1),
                         doctest::Contains(("address " + std::to_string(address) + ",").c_str()),
                         std::out_of_range);
  CHECK_THROWS_WITH_AS(cut(150, 60), doctest::Contains("at address 160, 50 bytes before"),
                       std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(cut_by_chunk({}, 0, 1)), std::out_of_range);
}

}  // namespace
}  // namespace hipvmm::test
