// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/placement.hpp"

#include <bit>

#include "mr/pool/allocator/pool_of.hpp"
#include "support/test.hpp"

// The place, and the chunks, of a request.
namespace hipvmm::mr::pool {

using test::pool_of;

TEST_CASE("pool: where chunks cost descriptors there are no more than half of these") {
  for (const std::size_t budget : {std::size_t{64}, std::size_t{512}}) {
    CAPTURE(budget);
    pool_of pool{2, true, 512 * GiB};
    pool.memory.capacity = 64 * GiB;
    pool.memory.traits.most_chunks = budget;
    pool.all.set_limit(64 * GiB);
    for (std::size_t held = 0; held < 64 * GiB; held += 64 * MiB) {
      REQUIRE(pool.all.allocate(pool.state(0), {64 * MiB, 256}));
      REQUIRE(pool.memory.created <= budget);
      // Beyond need by no more than an eighth of the memory held, and a chunk of a small pool.
      if (held > GiB) REQUIRE(pool.memory.held() <= (held + 64 * MiB) / 4 * 5 + 64 * MiB);
    }
  }
}

TEST_CASE("pool: a new chunk is an eighth of what is held and has 2 to 128 MiB") {
  pool_of pool{1, true};
  for (std::size_t used = 2 * MiB; used <= 4 * GiB; used += 2 * MiB) {
    const std::size_t before = pool.memory.held();
    const std::uint64_t chunks = pool.memory.created;
    pool.take(0, 2 * MiB);
    const std::size_t grown = pool.memory.held() - before;
    if (grown == 0) continue;
    REQUIRE(pool.memory.created == chunks + 1);
    REQUIRE(grown == std::clamp(std::bit_floor(before / 8), 2 * MiB, 128 * MiB));
  }
}

TEST_CASE("pool: a growth is a quarter of a chunk where an eighth of the pool is free") {
  const auto growth_beside_free_blocks = [](std::size_t each) {
    pool_of pool{1, true};
    std::vector<std::size_t> blocks;
    for (std::size_t used = 0; used < GiB; used += 4 * MiB) blocks.push_back(pool.take(0, 4 * MiB));
    for (std::size_t i = 0; i < blocks.size(); i += each) pool.give(0, blocks[i], 4 * MiB);
    const std::size_t before = pool.memory.held();
    pool.take(0, 6 * MiB);
    return pool.memory.held() - before;
  };
  CHECK(growth_beside_free_blocks(2) == 32 * MiB);
  CHECK(growth_beside_free_blocks(8) == 32 * MiB);
  // The free and the new memory make up an eighth.
  CHECK(growth_beside_free_blocks(16) == 64 * MiB);
  CHECK(growth_beside_free_blocks(256) == 64 * MiB);
}

TEST_CASE("pool: chunks smaller than new ones move only if memory is short") {
  // Of 2 MiB each, of which every other one is idle, in front of large ones.
  pool_of pool{1, true};
  std::vector<std::size_t> small;
  for (int i = 0; i < 8; ++i) small.push_back(pool.take(0, 2 * MiB));
  pool.take(0, GiB);
  for (std::size_t i = 0; i < small.size(); i += 2) pool.give(0, small[i], 2 * MiB);
  pool.streams.finish_all();
  const std::uint64_t before = pool.memory.created;
  SUBCASE("a new one is created where the limit allows it") {
    pool.take(0, 8 * MiB);
    CHECK(pool.memory.created == before + 1);
    CHECK(pool.all.counters().chunks_moved == 0);
  }
  SUBCASE("they move at the limit") {
    pool.all.set_limit(pool.memory.held());
    pool.take(0, 8 * MiB);
    CHECK(pool.memory.created == before);
    CHECK(pool.all.counters().chunks_moved == 4);
  }
  SUBCASE("they move where the device has no more") {
    pool.memory.capacity = pool.memory.held();
    pool.take(0, 8 * MiB);
    CHECK(pool.memory.created == before);
    CHECK(pool.all.counters().chunks_moved == 4);
  }
}

TEST_CASE("pool: at the limit a request ends with the free memory behind a gap") {
  pool_of pool{1, true};
  const std::size_t gone = pool.take(0, 4 * MiB);
  pool.give(0, pool.take(0, 4 * MiB), 4 * MiB);
  const std::size_t head = pool.take(0, MiB);
  pool.take(0, 3 * MiB);
  pool.give(0, gone, 4 * MiB);
  pool.give(0, head, MiB);
  pool.streams.finish_all();
  pool.all.trim(0, {});
  REQUIRE(pool.memory.held() == 4 * MiB);
  pool.all.set_limit(6 * MiB);
  CHECK(pool.all.usage_snapshot(new_memory{GiB}).largest_possible == 3 * MiB);
  CHECK(pool.take(0, 3 * MiB) == 2 * MiB);
  CHECK(pool.memory.held() == 6 * MiB);
}

TEST_CASE("pool: what would fit counts idle chunks that are too large to move") {
  pool_of pool{1, true};
  const std::size_t before = pool.take(0, 4 * MiB);
  const std::size_t gone = pool.take(0, 4 * MiB);
  const std::size_t behind = pool.take(0, 4 * MiB);
  const std::size_t idle = pool.take(0, 6 * MiB);
  pool.take(0, 2 * MiB);
  // A gap of 4 MiB with a free MiB before it and two behind, too short for the chunk of 6 MiB.
  pool.give(0, before, 4 * MiB);
  REQUIRE(pool.take(0, 3 * MiB) == before);
  pool.give(0, behind, 4 * MiB);
  REQUIRE(pool.take(0, 2 * MiB) == behind);
  pool.take(0, 2 * MiB);
  pool.give(0, behind, 2 * MiB);
  pool.give(0, gone, 4 * MiB);
  pool.streams.finish_all();
  pool.all.trim(0, {});
  pool.give(0, idle, 6 * MiB);
  pool.streams.finish_all();
  pool.all.set_limit(pool.memory.held());
  CHECK(pool.all.usage_snapshot(new_memory{GiB}).largest_possible == 7 * MiB);
  pool.all.trim(0, {});
  CHECK(pool.take(0, 7 * MiB) == 3 * MiB);
}

TEST_CASE("pool: a request takes four chunks, of 8 to 256 MiB") {
  for (const std::size_t bytes : {2 * MiB, 20 * MiB, 512 * MiB, 2 * GiB}) {
    pool_of pool{1, true};
    pool.take(0, bytes);
    CHECK(pool.memory.created == (bytes + std::clamp(bytes / 4, 8 * MiB, 256 * MiB) - 1) /
                                     std::clamp(bytes / 4, 8 * MiB, 256 * MiB));
    CHECK(pool.memory.held() == bytes);
  }
}

TEST_CASE("pool: a growth has 2 MiB at least where the granularity is smaller") {
  pool_of pool{1, true};
  pool.memory.traits.granularity = 4 * KiB;
  pool.take(0, KiB);
  CHECK(pool.memory.held() == 2 * MiB);
  pool.take(0, 2 * MiB);
  CHECK(pool.memory.held() == 4 * MiB);
}

TEST_CASE("pool: largest_chunk bounds both parts") {
  pool_of pool{1, true};
  pool.all.set_largest_chunk(4 * MiB);
  pool.take(0, GiB);
  CHECK(pool.memory.created == 256);
  pool.take(0, 2 * MiB);
  CHECK(pool.memory.held() == GiB + 4 * MiB);
}

TEST_CASE("pool: one size for all chunks is the power of two below a 128th of the limit") {
  const auto size_below = [](std::size_t limit, std::size_t largest = 1024 * GiB) {
    pool_of pool{1, true, 512 * GiB};
    pool.memory.traits.has_equal_chunks = true;
    pool.memory.capacity = limit;
    pool.all.set_limit(limit);
    pool.all.set_largest_chunk(largest);
    pool.take(0, MiB);
    return pool.memory.held();
  };
  CHECK(size_below(192 * GiB) == 128 * MiB);
  CHECK(size_below(3 * GiB) == 16 * MiB);
  CHECK(size_below(256 * MiB) == 2 * MiB);
  CHECK(size_below(100 * MiB) == 2 * MiB);
  CHECK(size_below(192 * GiB, 40 * MiB) == 32 * MiB);
}

TEST_CASE("pool: an old address that nothing uses any more is a place like unmapped ones") {
  // Eight chunks, of which every other one is idle, at the end of all addresses but one chunk's.
  const auto worn = [](bool waits) {
    auto pool = std::make_unique<pool_of>(2, true, 26 * MiB);
    pool->memory.traits.unmap_waits = waits;
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
    CHECK_FALSE(pool->all.has_addresses_to_unmap());
    CHECK(pool->memory.mappings() == 9);
  }
  SUBCASE("but where an unmap waits it goes elsewhere") {
    const auto pool = worn(true);
    CHECK(pool->take(1, 2 * MiB) >= 24 * MiB);
    CHECK(pool->all.has_addresses_to_unmap());
    CHECK(pool->memory.mappings() == 13);
  }
  SUBCASE("until nothing else is left") {
    const auto pool = worn(true);
    pool->take(1, 2 * MiB);
    CHECK(pool->take(1, 2 * MiB) < 16 * MiB);
    CHECK_FALSE(pool->all.has_addresses_to_unmap());
  }
  SUBCASE("and what HIP refuses to unmap is no place") {
    const auto pool = worn(false);
    pool->memory.keeps_mappings = true;
    CHECK(pool->take(1, 2 * MiB) < 16 * MiB);
    CHECK(pool->memory.mappings() == 10);
  }
}

TEST_CASE("pool: what was freed without a stream passes in parts") {
  pool_of pool;
  const std::size_t first = pool.take_idle(1 * MiB);
  const std::size_t second = pool.take_idle(1 * MiB);
  pool.memory.use(1, first, 1 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), first, 1 * MiB));
  // A miss asks how far all streams have come.
  pool.take(0, 2 * MiB);
  pool.streams.finish_all();
  pool.memory.use(1, second, 1 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), second, 1 * MiB));
  pool.all.set_limit(pool.memory.held());
  pool.all.set_reuse({false, true, false});
  CHECK(pool.take(0, 1 * MiB) == first);
  CHECK(pool.streams.host_waits == 0);
}

TEST_CASE("pool: what was freed without a stream leaves idle memory beside it idle") {
  pool_of pool;
  const std::size_t one = pool.take_idle(1 * MiB);
  pool.memory.use(1, one, 1 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), one, 1 * MiB));
  CHECK(pool.take(0, 1 * MiB) == one + 1 * MiB);
  CHECK(pool.memory.created == 1);
}

TEST_CASE("pool: no stream's request waits for what was freed without one while there is more") {
  pool_of pool{2, false};
  const std::size_t one = pool.take_idle(2 * MiB);
  pool.memory.use(1, one, 2 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), one, 2 * MiB));
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
  for (int request = 0; request < 2; ++request) pool.take_idle(2 * MiB);
  CHECK(pool.streams.host_waits == 1);
}

}  // namespace hipvmm::mr::pool
