// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/placement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "mr/pool/allocator/pool_of.hpp"

// Which place, and which chunks, a request gets.
namespace hipvmm::mr::pool {

using test::pool_of;

TEST_CASE("pool: where chunks cost descriptors there are no more than half of these") {
  for (const std::size_t budget : {std::size_t{64}, std::size_t{512}}) {
    CAPTURE(budget);
    pool_of pool{2, true, 512 * GiB};
    pool.memory.capacity = 64 * GiB;
    pool.memory.chunk_budget = budget;
    pool.all.set_limit(64 * GiB);
    for (std::size_t held = 0; held < 64 * GiB; held += 64 * MiB) {
      REQUIRE(pool.all.allocate(pool.state(0), 64 * MiB, 256));
      REQUIRE(pool.memory.created <= budget);
      // Beyond need by no more than an eighth of what is held, and a chunk of a small pool.
      if (held > GiB) REQUIRE(pool.memory.held() <= (held + 64 * MiB) / 4 * 5 + 64 * MiB);
    }
  }
}

TEST_CASE("pool: a program that only allocates takes ever more from the device at once") {
  pool_of pool{1, true};
  constexpr std::size_t bytes = 4 * MiB;
  std::size_t used = 0;
  std::size_t last = 0;
  for (; used < GiB; used += bytes) {
    last = pool.take(0, bytes);
    REQUIRE(pool.memory.held() <= std::max(used + 2 * bytes, (used + bytes) / 10 * 11));
  }
  CHECK(pool.memory.created <= 48);
  // What is freed in between ends that: now the pool takes what is missing.
  pool.give(0, last, bytes);
  const std::size_t held = pool.memory.held();
  pool.take(0, held - used + 2 * bytes);
  CHECK(pool.memory.held() == held + bytes);
}

TEST_CASE("pool: the chunks of a request are an eighth of what it lacks, and a twelfth at least") {
  pool_of pool{1, true};
  pool.take(0, 2 * GiB);
  // 256, 224, 196, eight times 170, and the last.
  CHECK(pool.memory.created == 12);
  CHECK(pool.memory.held() == 2 * GiB);
}

TEST_CASE("pool: a small pool has larger chunks for a program that only allocates") {
  pool_of pool{1, true};
  std::size_t last = 0;
  for (int i = 0; i < 4; ++i) last = pool.take(0, 64 * MiB);
  CHECK(pool.memory.created == 8);
  pool.take(0, 64 * MiB);
  CHECK(pool.memory.created == 9);
  pool.give(0, last, 64 * MiB);
  pool.take(0, 64 * MiB);
  pool.take(0, 64 * MiB);
  CHECK(pool.memory.created == 11);
}

TEST_CASE("pool: an old address that nothing uses any more is a place like unmapped ones") {
  // Eight chunks, of which every other one is idle, at the end of all addresses but one chunk's.
  const auto worn = [](bool waits) {
    auto pool = std::make_unique<pool_of>(2, true, 26 * MiB);
    pool->memory.waits_to_unmap = waits;
    std::vector<std::size_t> parts;
    for (int i = 0; i < 8; ++i) parts.push_back(pool->take(0, 2 * MiB));
    for (std::size_t i = 0; i < 8; i += 2) pool->give(0, parts[i], 2 * MiB);
    pool->streams.finish_all();
    // Four chunks move together, and leave four addresses.
    pool->take(0, 8 * MiB);
    CHECK(pool->memory.mappings() == 12);
    return pool;
  };
  SUBCASE("the request that goes there unmaps it") {
    const auto pool = worn(false);
    CHECK(pool->take(1, 2 * MiB) < 16 * MiB);
    CHECK_FALSE(pool->all.has_old_addresses());
    CHECK(pool->memory.mappings() == 9);
  }
  SUBCASE("but where an unmap waits it goes elsewhere") {
    const auto pool = worn(true);
    CHECK(pool->take(1, 2 * MiB) >= 24 * MiB);
    CHECK(pool->all.has_old_addresses());
    CHECK(pool->memory.mappings() == 13);
  }
  SUBCASE("until nothing else is left") {
    const auto pool = worn(true);
    pool->take(1, 2 * MiB);
    CHECK(pool->take(1, 2 * MiB) < 16 * MiB);
    CHECK_FALSE(pool->all.has_old_addresses());
  }
  SUBCASE("and what HIP refuses to unmap is no place") {
    const auto pool = worn(false);
    pool->memory.keeps_mappings = true;
    CHECK(pool->take(1, 2 * MiB) < 16 * MiB);
    CHECK(pool->all.has_old_addresses());
  }
}

TEST_CASE("pool: what was freed without a stream passes in parts") {
  pool_of pool;
  const auto first = pool.all.allocate(pool.all.idle(), 1 * MiB, 256);
  const auto second = pool.all.allocate(pool.all.idle(), 1 * MiB, 256);
  REQUIRE(first);
  REQUIRE(second);
  pool.memory.use(1, *first, 1 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), *first, 1 * MiB));
  // A miss asks how far all streams have come.
  pool.take(0, 2 * MiB);
  pool.streams.finish_all();
  pool.memory.use(1, *second, 1 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), *second, 1 * MiB));
  pool.all.set_limit(pool.memory.held());
  pool.all.set_reuse({false, true, false});
  CHECK(pool.take(0, 1 * MiB) == *first);
  CHECK(pool.streams.host_waits == 0);
}

TEST_CASE("pool: what was freed without a stream leaves idle memory beside it idle") {
  pool_of pool;
  const auto one = pool.all.allocate(pool.all.idle(), 1 * MiB, 256);
  REQUIRE(one);
  pool.memory.use(1, *one, 1 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), *one, 1 * MiB));
  CHECK(pool.take(0, 1 * MiB) == *one + 1 * MiB);
  CHECK(pool.memory.created == 1);
}

TEST_CASE("pool: no stream's request waits for what was freed without one while there is more") {
  pool_of pool{2, false};
  const auto one = pool.all.allocate(pool.all.idle(), 2 * MiB, 256);
  REQUIRE(one);
  pool.memory.use(1, *one, 2 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), *one, 2 * MiB));
  pool.take(0, 8 * MiB);
  CHECK(pool.streams.host_waits == 0);
  CHECK(pool.memory.held() == 10 * MiB);
}

TEST_CASE("pool: one wait of the host serves all that was freed before it") {
  pool_of pool;
  const std::size_t first = pool.take(0, 2 * MiB);
  const std::size_t second = pool.take(0, 2 * MiB);
  REQUIRE(pool.memory.held() == 4 * MiB);
  pool.give(0, first, 2 * MiB);
  pool.give(0, second, 2 * MiB);
  pool.all.set_limit(pool.memory.held());
  for (int request = 0; request < 2; ++request)
    REQUIRE(pool.all.allocate(pool.all.idle(), 2 * MiB, 256));
  CHECK(pool.streams.host_waits == 1);
}

}  // namespace hipvmm::mr::pool
