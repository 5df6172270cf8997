// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_storage.hpp>
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t granule_bytes = 2 * MiB;

struct ahead_row {
  std::size_t committed;
  std::size_t needed;
  std::size_t max;
  std::size_t limit;
  grow_ahead_policy policy;
  std::size_t target;
};

constexpr grow_ahead_policy policy(std::size_t watermark, std::size_t budget) {
  return {prefetch_level::mapped, watermark, budget};
}

TEST_CASE("ahead_target: raises what is unused to the budget once it is below the watermark") {
  constexpr ahead_row rows[] = {
      // As chosen: below the watermark, not at it.
      {100 * MiB, 100 * MiB, TiB, GiB, policy(64 * MiB, 256 * MiB), 256 * MiB},
      {100 * MiB, 37 * MiB, TiB, GiB, policy(64 * MiB, 256 * MiB), 194 * MiB},
      {100 * MiB, 36 * MiB, TiB, GiB, policy(64 * MiB, 256 * MiB), 0},
      {100 * MiB, 100 * MiB - 1, TiB, GiB, policy(64 * MiB, 256 * MiB), 256 * MiB},
      {100 * MiB, 100 * MiB, TiB, GiB, policy(1, 1), 2 * MiB},
      {100 * MiB, 100 * MiB, TiB, GiB, policy(0, 256 * MiB), 256 * MiB},
      {200 * MiB, 100 * MiB, TiB, GiB, policy(0, 256 * MiB), 156 * MiB},
      {228 * MiB, 100 * MiB, TiB, GiB, policy(0, 256 * MiB), 0},
      // An empty vector prepares nothing.
      {0, 0, TiB, GiB, policy(64 * MiB, 256 * MiB), 0},
      {100 * MiB, 0, TiB, GiB, policy(256 * MiB, 256 * MiB), 0},
      // By default an eighth of the backed bytes, as far as the step limit.
      {16 * GiB, 16 * GiB, TiB, 4 * GiB, policy(0, 0), 2 * GiB},
      {16 * GiB, 16 * GiB, TiB, GiB, policy(0, 0), GiB},
      {16 * GiB, 16 * GiB - 512 * MiB, TiB, GiB, policy(0, 0), 0},
      {16 * GiB, 16 * GiB - 510 * MiB, TiB, GiB, policy(0, 0), 514 * MiB},
      // But no less than 256 MiB, or a 64th of the maximum, or a granule.
      {2 * MiB, 1, TiB, GiB, policy(0, 0), 256 * MiB},
      {2 * MiB, 1, 8 * GiB, GiB, policy(0, 0), 128 * MiB},
      {2 * MiB, 2 * MiB, 8 * GiB, GiB, policy(0, 0), 128 * MiB},
      {2 * MiB, 2 * MiB, GiB, GiB, policy(0, 0), 16 * MiB},
      {2 * MiB, 2 * MiB, 64 * MiB, GiB, policy(0, 0), 2 * MiB},
      {16 * GiB, 16 * GiB, TiB, 0, policy(0, 0), 256 * MiB},
      // A watermark of one's own raises the default budget.
      {GiB, GiB, TiB, GiB, policy(GiB, 0), GiB},
      // The maximum bounds everything.
      {GiB, GiB, GiB, GiB, policy(0, 256 * MiB), 0},
      {GiB - 2 * MiB, GiB - 2 * MiB, GiB, GiB, policy(0, 256 * MiB), 2 * MiB},
      {MiB, MiB, 2 * MiB, GiB, policy(0, 0), MiB},
      {MiB, MiB, TiB, GiB, policy(0, ~std::size_t{0}), TiB - MiB},
  };
  for (const ahead_row& ahead_row : rows) {
    CAPTURE(ahead_row.committed);
    CAPTURE(ahead_row.needed);
    CAPTURE(ahead_row.max);
    CAPTURE(ahead_row.policy.watermark_bytes);
    CAPTURE(ahead_row.policy.budget_bytes);
    CHECK(ahead_target(ahead_row.committed, ahead_row.needed, ahead_row.max, granule_bytes,
                       ahead_row.limit, ahead_row.policy) == ahead_row.target);
  }
}

TEST_CASE("ahead_target: stays within the maximum and a granule of the budget") {
  std::mt19937 generator = seeded_generator();
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t unit = std::size_t{4096} << below(generator, 10);
    const std::size_t max = unit * (2 + below(generator, 100'000));
    const std::size_t committed = unit * (1 + below(generator, max / unit));
    const std::size_t needed = 1 + below(generator, committed);
    const std::size_t budget = 1 + below(generator, GiB);
    const std::size_t watermark = below(generator, budget + 1);
    CAPTURE(unit);
    CAPTURE(max);
    CAPTURE(committed);
    CAPTURE(needed);
    CAPTURE(budget);
    CAPTURE(watermark);
    const std::size_t target =
        ahead_target(committed, needed, max, unit, GiB, policy(watermark, budget));
    REQUIRE(target % unit == 0);
    REQUIRE(committed + target <= max);
    const std::size_t unused = committed - needed;
    const std::size_t least = watermark != 0 ? watermark : budget / 2;
    if (unused >= least) {
      REQUIRE(target == 0);
    } else {
      REQUIRE(unused + target < budget + unit);
      REQUIRE(unused + target >= std::min(budget, max - needed));
    }
  }
}

}  // namespace
}  // namespace hipvmm::test
