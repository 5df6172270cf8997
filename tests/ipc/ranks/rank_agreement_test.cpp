// SPDX-License-Identifier: MIT
#include "ipc/ranks/rank_agreement.hpp"

#include "ipc/ranks/run_ranks.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("rank_agreement: of a long text the other ranks get as much as a message has room for") {
  const std::string text(2000, 'x');
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [&](thread_rank& one) {
    detail::rank_agreement call{one.ranks, "meet", 1};
    if (one.ranks.rank() == 1) call.attempt([&] { throw std::runtime_error{text}; });
    call.share_count(0);
  });
  CHECK(ends[1].thrown == text);
  CHECK(ends[0].thrown == "rank 1 could not take part in meet(): " + std::string(511, 'x'));
}

TEST_CASE("rank_agreement: counts whose sum is beyond all numbers have no room") {
  run_ranks(2, {first_device}, [](thread_rank& one) {
    constexpr std::size_t half = std::numeric_limits<std::size_t>::max() / 2 + 1;
    detail::rank_agreement call{one.ranks, "meet", 1};
    call.set_count(0, half);
    call.share_counts(1000);
    CHECK_FALSE(call.all_have_room());
  });
}

}  // namespace
}  // namespace hipvmm::test
