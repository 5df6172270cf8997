// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/partitioned_vector.hpp>
#include "ipc/ranks/parts_model.hpp"
#include "ipc/ranks/run_ranks.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"

namespace hipvmm::test {
namespace {

/// Rebalances while the nth allocation of one rank's thread fails. Returns whether there were that
/// many.
bool rebalance_without_memory(const parts_model& before, int poor, std::uint64_t nth) {
  CAPTURE(poor);
  CAPTURE(nth);
  std::vector<std::string> thrown(before.size());
  bool struck = false;
  run_ranks(static_cast<int>(before.size()), {first_device}, [&](thread_rank& one) {
    const auto own = static_cast<std::size_t>(one.ranks.rank());
    partitioned_vector<std::uint32_t> of{one.ranks};
    of.local().append(before[own], one.stream);
    one.stream.synchronize();
    try {
      if (one.ranks.rank() != poor) {
        of.rebalance(one.stream);
      } else {
        const allocation_failure failure{nth};
        try {
          of.rebalance(one.stream);
        } catch (...) {
          struck = failure.struck();
          throw;
        }
        struck = failure.struck();
      }
    } catch (const std::exception& error) {
      thrown[own] = error.what();
    }
    CHECK(of.local().copy_to_host(one.stream) ==
          (thrown[own].empty() ? balanced(before)[own] : before[own]));
    // Not before the others have seen how it ended.
    of.update();
    of.rebalance(one.stream);
    CHECK(of.local().copy_to_host(one.stream) == balanced(before)[own]);
  });
  for (const std::string& each : thrown) CHECK(each.empty() == thrown[0].empty());
  return struck;
}

TEST_CASE("partitioned_vector: missing host memory of one rank loses nothing on any") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  const parts_model before{numbers_of_rank(0, 0, 300), numbers_of_rank(1, 0, 20)};
  for (const int poor : {0, 1})
    for (std::uint64_t nth = 1; rebalance_without_memory(before, poor, nth); ++nth)
      REQUIRE(nth < 1000);
}

}  // namespace
}  // namespace hipvmm::test
