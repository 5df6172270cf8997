// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

std::string refusal_of(const std::vector<outgoing>& out, const std::vector<incoming>& in) {
  return text_thrown_by<std::invalid_argument>([&] { detail::check_pieces(out, in, 1, 3); });
}

TEST_CASE("check_pieces: names the piece that is wrong") {
  char bytes[10] = {};
  CHECK(refusal_of({}, {}) == "");
  CHECK(refusal_of({{0, bytes, 1}, {1, bytes, 2}, {2, nullptr, 0}}, {{1, bytes + 5, 2}}) == "");
  CHECK(refusal_of({{3, bytes, 1}}, {}) ==
        "transfer: the piece to rank 3 has no such rank: there are 3, from 0 on");
  CHECK(refusal_of({}, {{-1, bytes, 1}}) ==
        "transfer: the piece from rank -1 has no such rank: there are 3, from 0 on");
  CHECK(refusal_of({{0, bytes, 1}, {0, bytes + 1, 1}}, {}) ==
        "transfer: the piece to rank 0 is named twice; join the pieces, or call transfer() twice");
  CHECK(refusal_of({}, {{2, nullptr, 4}}) ==
        "transfer: the piece from rank 2 has 4 bytes and its address is nullptr");
  CHECK(refusal_of({{1, bytes, 2}}, {}) ==
        "transfer: rank 1 sends itself 2 bytes and receives 0 of itself; give the same");
}

TEST_CASE("rank_greeting: the smallest piece is agreed on") {
  const std::vector<detail::rank_greeting> all{detail::own_greeting(500), detail::own_greeting(300),
                                               detail::own_greeting(400)};
  CHECK(detail::agree(all) == 300);
}

TEST_CASE(
    "rank_greeting: a rank that cannot make its communicator is named, whatever its version") {
  std::vector<detail::rank_greeting> all(3, detail::own_greeting(1));
  all[1] = {};
  all[1].piece_bytes = detail::rank_greeting::cannot;
  try {
    static_cast<void>(detail::agree(all));
    FAIL_CHECK("all could");
  } catch (const rank_error& error) {
    CHECK(error.reason() == rank_failure::remote);
    CHECK(error.rank() == 1);
  }
}

TEST_CASE("rank_greeting: another version or provider is refused by the first rank that has it") {
  std::vector<detail::rank_greeting> all(3, detail::own_greeting(1));
  ++all[2].version[2];  // patches are alike
  CHECK(detail::agree(all) == 1);
  const auto refused = [](const std::vector<detail::rank_greeting>& greetings) {
    try {
      static_cast<void>(detail::agree(greetings));
    } catch (const rank_error& error) {
      CHECK(error.reason() == rank_failure::refused);
      CHECK(error.rank() == 2);
      return std::string{error.what()};
    }
    return std::string{};
  };
  std::vector<detail::rank_greeting> versions = all;
  ++versions[2].version[1];
  CHECK(refused(versions).find("build all ranks with the same version and provider") !=
        std::string::npos);
  std::vector<detail::rank_greeting> providers = all;
  const std::string name = "other";
  providers[2].provider = {};
  std::copy(name.begin(), name.end(), providers[2].provider.begin());
  CHECK(refused(providers).find("rank 2 has hipvmm ") == 0);
  CHECK(refused(providers).find("on the provider 'other', rank 0 has ") != std::string::npos);
}

TEST_CASE("checked_limit: none is too long, and none of zero") {
  communicator_options options;
  options.limit = std::chrono::milliseconds::max();
  const detail::rank_wait wait{detail::checked_limit(options)};
  CHECK_FALSE(wait.is_over());
  options.limit = std::chrono::milliseconds{7};
  CHECK(detail::checked_limit(options) == options.limit);
  options.limit = {};
  CHECK_THROWS_WITH_AS(static_cast<void>(detail::checked_limit(options)),
                       "communicator_options::limit is 0 ms; it must be more than zero",
                       std::invalid_argument);
}

TEST_CASE("name_ranks: one, several, and many") {
  CHECK(detail::name_ranks({3}) == "rank 3");
  CHECK(detail::name_ranks({0, 2}) == "ranks 0, 2");
  CHECK(detail::name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) ==
        "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace hipvmm::test
