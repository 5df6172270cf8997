// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/thread_communicator.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "ipc/ranks/run_ranks.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("thread_communicator: all_gather gives every rank the bytes of all in their order") {
  run_ranks(3, {first_device}, [](thread_rank& one) {
    const int mine = 10 + one.ranks.rank();
    std::vector<int> all(3);
    one.ranks.all_gather(&mine, all.data(), sizeof(mine));
    CHECK(all == std::vector<int>{10, 11, 12});
  });
}

TEST_CASE("thread_communicator: all_to_all gives each rank its piece of all") {
  run_ranks(3, {first_device}, [](thread_rank& one) {
    const int rank = one.ranks.rank();
    const std::vector<int> mine{10 * rank, 10 * rank + 1, 10 * rank + 2};
    std::vector<int> theirs(3);
    one.ranks.all_to_all(mine.data(), theirs.data(), sizeof(int));
    CHECK(theirs == std::vector<int>{rank, 10 + rank, 20 + rank});
  });
}

}  // namespace
}  // namespace hipvmm::test
