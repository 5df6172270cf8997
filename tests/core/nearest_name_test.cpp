// SPDX-License-Identifier: MIT
#include "core/text/nearest_name.hpp"

#include "support/test.hpp"

namespace hipvmm::detail {
namespace {

TEST_CASE("nearest_name: slips of the keyboard, other spellings and parts of a name") {
  const std::vector<std::string> options{"--device", "--json", "--max-ratio", "--max-pair-ns-p50"};
  for (const char* slip : {"--devise", "--DEVICE", "-device", "--dvice", "--edvice", "--devices"})
    CHECK(nearest_name(slip, options) == "--device");
  CHECK(nearest_name("--jsno", options) == "--json");
  CHECK(nearest_name("--max", options) == "--max-ratio");
  CHECK(nearest_name("--max_ratio", options) == "--max-ratio");
  CHECK(nearest_name("maximum_bytes", {"initial", "maximum"}) == "maximum");
  CHECK(nearest_name("maximum", {"pool.initial", "pool.maximum"}) == "pool.maximum");
  CHECK(nearest_name("lsit", {"limit", "list"}) == "list");
  for (const std::string slip : {"limt", "LIMT", "limi"})
    CHECK(nearest_name(slip, {"list", "limit"}) == "limit");
}

TEST_CASE("nearest_name: no name is near a text that resembles none") {
  for (const char* other : {"", "-", "--", "x", "--bogus", "nonsense"})
    CHECK(nearest_name(other, {"--device", "--json"}).empty());
  CHECK(nearest_name(std::string(100'000, 'x'), {"--device"}).empty());
  CHECK(nearest_name("x", {}).empty());
}

TEST_CASE("name_advice: the nearest name, or all") {
  CHECK(name_advice("sice", {"size", "flag", "name"}) == "did you mean size?");
  CHECK(name_advice("other", {"size", "flag", "name"}) == "choose one of size, flag or name");
  CHECK(name_advice("other", {"size"}) == "choose one of size");
}

}  // namespace
}  // namespace hipvmm::detail
