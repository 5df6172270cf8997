// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_storage.hpp>
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

struct growth_row {
  std::size_t committed;
  std::size_t needed;
  std::size_t max;
  std::size_t granule;
  std::size_t limit;
  std::size_t target;
};

TEST_CASE("growth_target: adds an eighth, or what is needed, in whole granules") {
  constexpr growth_row rows[] = {
      // From nothing: exact.
      {0, 1, GiB, 2 * MiB, GiB, 2 * MiB},
      {0, 2 * MiB, GiB, 2 * MiB, GiB, 2 * MiB},
      {0, 2 * MiB + 1, GiB, 2 * MiB, GiB, 4 * MiB},
      {0, 300 * MiB, GiB, 2 * MiB, GiB, 300 * MiB},
      // An eighth of little is less than a granule.
      {2 * MiB, 2 * MiB + 1, GiB, 2 * MiB, GiB, 4 * MiB},
      {14 * MiB, 14 * MiB + 1, GiB, 2 * MiB, GiB, 16 * MiB},
      // An eighth of the backed bytes, in whole granules.
      {32 * MiB, 32 * MiB + 1, GiB, 2 * MiB, GiB, 36 * MiB},
      {160 * MiB, 160 * MiB + 1, GiB, 2 * MiB, GiB, 180 * MiB},
      {162 * MiB, 162 * MiB + 1, GiB, 2 * MiB, GiB, 182 * MiB},
      // The need is more than an eighth.
      {160 * MiB, 181 * MiB, GiB, 2 * MiB, GiB, 182 * MiB},
      {160 * MiB, 180 * MiB, GiB, 2 * MiB, GiB, 180 * MiB},
      // The step limit, rounded down to granules, bounds the eighth.
      {64 * GiB, 64 * GiB + 1, TiB, 2 * MiB, GiB, 65 * GiB},
      {160 * MiB, 160 * MiB + 1, GiB, 2 * MiB, 5 * MiB, 164 * MiB},
      {160 * MiB, 160 * MiB + 1, GiB, 2 * MiB, 0, 162 * MiB},
      // The maximum bounds everything, off the granule too.
      {960 * MiB, 960 * MiB + 1, GiB, 2 * MiB, GiB, GiB},
      {0, 3 * MiB, 3 * MiB, 2 * MiB, GiB, 3 * MiB},
      {GiB - 2 * MiB, GiB, GiB, 2 * MiB, GiB, GiB},
      // Any granule.
      {64 * KiB, 64 * KiB + 1, GiB, 4 * KiB, GiB, 72 * KiB},
  };
  for (const growth_row& growth_row : rows) {
    CAPTURE(growth_row.committed);
    CAPTURE(growth_row.needed);
    CHECK(growth_target(growth_row.committed, growth_row.needed, growth_row.max, growth_row.granule,
                        growth_row.limit) == growth_row.target);
  }
}

TEST_CASE("growth_target: holds what is needed, within the maximum, with bounded slack") {
  std::mt19937 generator = seeded_generator();
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t granule = std::size_t{4096} << below(generator, 10);
    const std::size_t max = granule * (2 + below(generator, 100'000));
    const std::size_t committed = granule * below(generator, max / granule);
    const std::size_t needed = committed + 1 + below(generator, max - committed);
    const std::size_t limit = below(generator, 2) == 0 ? GiB : below(generator, GiB);
    CAPTURE(granule);
    CAPTURE(max);
    CAPTURE(committed);
    CAPTURE(needed);
    CAPTURE(limit);
    const std::size_t target = growth_target(committed, needed, max, granule, limit);
    const std::size_t exact = align_up(needed, granule);
    REQUIRE(target % granule == 0);
    REQUIRE(target >= needed);
    REQUIRE(target <= max);
    REQUIRE(target - std::min(exact, target) <= std::min(committed / 8, limit));
    REQUIRE(growth_target(committed, needed, max, granule, 0) == exact);
  }
}

TEST_CASE("growth_target: growing one byte at a time takes logarithmically many steps") {
  constexpr std::size_t granule = 2 * MiB;
  constexpr std::size_t max = TiB;
  std::size_t steps = 0;
  for (std::size_t committed = 0; committed < max / 2; ++steps)
    committed = growth_target(committed, committed + 1, max, granule, max);
  // 8 steps of one granule, then at least a factor of 17/16 each: log(2^18 / 8) / log(17/16).
  CHECK(steps < 8 + 172);
}

}  // namespace
}  // namespace hipvmm::test
