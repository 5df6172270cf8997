// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_cache.hpp>

#include "support/random_seed.hpp"
#include "support/test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

TEST_CASE("chunk_cache: one that keeps nothing creates every chunk") {
  chunk_cache cache;
  cache.recycle(cache.acquire(first_device, granule()));
  cache.recycle(cache.acquire(first_device, granule()));
  const chunk_cache_statistics statistics = cache.statistics();
  CHECK(cache.byte_limit() == 0);
  CHECK(statistics.misses == 2);
  CHECK(statistics.hits == 0);
  CHECK(statistics.chunks == 0);
}

TEST_CASE("chunk_cache: a chunk that came back is used again") {
  chunk_cache cache{64 * granule()};
  physical_chunk chunk = cache.acquire(first_device, 2 * granule());
  const auto* const handle = chunk.get();
  cache.recycle(std::move(chunk));
  CHECK(cache.statistics().bytes == 2 * granule());
  CHECK(cache.statistics().chunks == 1);
  CHECK(cache.acquire(first_device, 2 * granule()).get() == handle);
  CHECK(cache.statistics().hits == 1);
  CHECK(cache.statistics().bytes == 0);
}

TEST_CASE("chunk_cache: hands chunks out in the order of their creation") {
  chunk_cache cache{64 * granule()};
  std::vector<physical_chunk> chunks;
  std::vector<ihipMemGenericAllocationHandle*> created;
  for (int i = 0; i < 16; ++i) {
    chunks.push_back(cache.acquire(first_device, granule()));
    created.push_back(chunks.back().get());
  }
  std::mt19937 generator = seeded_generator();
  std::shuffle(chunks.begin(), chunks.end(), generator);
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
  chunks.clear();
  for (const auto* const handle : created) {
    chunks.push_back(cache.acquire(first_device, granule()));
    CHECK(chunks.back().get() == handle);
  }
}

TEST_CASE("chunk_cache: bytes and the handle type must match exactly") {
  chunk_cache cache{64 * granule()};
  cache.recycle(cache.acquire(first_device, 2 * granule(), handle_type::posix_fd));
  CHECK(cache.acquire(first_device, granule(), handle_type::posix_fd).bytes() == granule());
  CHECK(cache.acquire(first_device, 3 * granule(), handle_type::posix_fd).bytes() == 3 * granule());
  CHECK(cache.acquire(first_device, 2 * granule()).shareable() == handle_type::none);
  CHECK(cache.statistics().hits == 0);
}

TEST_CASE("chunk_cache: the device must match") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  chunk_cache cache{64 * granule()};
  cache.recycle(cache.acquire(first_device, granule()));
  CHECK(cache.acquire(device_ref{1}, granule()).device() == device_ref{1});
  CHECK(cache.statistics().hits == 0);
}

TEST_CASE("chunk_cache: each device has the limit to itself") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  const device_ref second{1};
  chunk_cache cache{2 * granule()};
  cache.recycle(cache.acquire(second, granule()));
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 4; ++i) chunks.push_back(cache.acquire(first_device, granule()));
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
  CHECK(cache.statistics(first_device).chunks == 2);
  CHECK(cache.statistics(first_device).dropped == 2);
  CHECK(cache.statistics(second).chunks == 1);
  CHECK(cache.statistics(second).dropped == 0);
  CHECK(cache.statistics().chunks == 3);
  CHECK(cache.statistics().misses == 5);
}

TEST_CASE("chunk_cache: trim of a device leaves the others") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  const device_ref second{1};
  chunk_cache cache{8 * granule()};
  for (const device_ref device : {first_device, second}) {
    physical_chunk chunk = cache.acquire(device, granule());
    cache.recycle(cache.acquire(device, 2 * granule()));
    cache.recycle(std::move(chunk));
  }
  CHECK(cache.trim(first_device, granule()) == 2 * granule());
  CHECK(cache.trim(first_device) == granule());
  CHECK(cache.statistics(first_device).bytes == 0);
  CHECK(cache.statistics(second).bytes == 3 * granule());
  CHECK(cache.trim(granule()) == 2 * granule());
}

TEST_CASE("chunk_cache: what exceeds the limit evicts the oldest") {
  chunk_cache cache{3 * granule()};
  physical_chunk oldest = cache.acquire(first_device, granule());
  physical_chunk middle = cache.acquire(first_device, 2 * granule());
  physical_chunk newest = cache.acquire(first_device, granule());
  const auto* const kept = newest.get();
  for (physical_chunk* const each : {&oldest, &middle, &newest}) cache.recycle(std::move(*each));
  CHECK(cache.statistics().bytes == 3 * granule());
  CHECK(cache.acquire(first_device, granule()).get() == kept);
}

TEST_CASE(
    "chunk_cache: a device that it has not seen has nothing, one that does not exist throws") {
  chunk_cache cache{8 * granule()};
  CHECK(cache.trim(first_device) == 0);
  CHECK(cache.statistics(first_device).misses == 0);
  const device_ref missing{device_count()};
  CHECK_THROWS_AS(cache.trim(missing), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(cache.statistics(missing)), std::invalid_argument);
}

TEST_CASE("chunk_cache: remembers the most that it held") {
  chunk_cache cache{64 * granule()};
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 3; ++i) chunks.push_back(cache.acquire(first_device, 2 * granule()));
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
  cache.trim();
  cache.recycle(cache.acquire(first_device, granule()));
  CHECK(cache.statistics().peak_bytes == 6 * granule());
  CHECK(cache.statistics().peak_chunks == 3);
}

TEST_CASE("chunk_cache: never holds more than its limit") {
  chunk_cache cache{4 * granule()};
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 6; ++i) chunks.push_back(cache.acquire(first_device, granule()));
  for (physical_chunk& chunk : chunks) {
    cache.recycle(std::move(chunk));
    CHECK(cache.statistics().bytes <= 4 * granule());
  }
  CHECK(cache.statistics().chunks == 4);
  CHECK(cache.statistics().dropped == 2);
  CHECK(cache.statistics().peak_bytes == 4 * granule());
}

TEST_CASE("chunk_cache: a chunk larger than the limit displaces nothing") {
  chunk_cache cache{2 * granule()};
  physical_chunk large = cache.acquire(first_device, 3 * granule());
  cache.recycle(cache.acquire(first_device, granule()));
  cache.recycle(std::move(large));
  CHECK(cache.statistics().bytes == granule());
  CHECK(cache.statistics().dropped == 1);
}

TEST_CASE("chunk_cache: a trim and a smaller limit release at once, and a trim says how much") {
  chunk_cache cache{8 * granule()};
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 8; ++i) chunks.push_back(cache.acquire(first_device, granule()));
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
  CHECK(cache.trim(5 * granule()) == 3 * granule());
  CHECK(cache.trim(5 * granule()) == 0);
  cache.set_byte_limit(3 * granule());
  CHECK(cache.byte_limit() == 3 * granule());
  CHECK(cache.statistics().bytes == 3 * granule());
  CHECK(cache.trim() == 3 * granule());
  CHECK(cache.statistics().chunks == 0);
  CHECK(cache.statistics().dropped == 8);
}

TEST_CASE("chunk_cache: trim releases first what came back first") {
  chunk_cache cache{8 * granule()};
  physical_chunk early = cache.acquire(first_device, granule());
  physical_chunk late = cache.acquire(first_device, granule());
  const auto* const kept = early.get();
  cache.recycle(std::move(late));
  cache.recycle(std::move(early));
  cache.trim(granule());
  CHECK(cache.acquire(first_device, granule()).get() == kept);
}

TEST_CASE("chunk_cache: an empty chunk is taken back as nothing") {
  chunk_cache cache{8 * granule()};
  cache.recycle(physical_chunk{});
  CHECK(cache.statistics().chunks == 0);
}

TEST_CASE("chunk_cache: bad arguments throw as the chunk's constructor does") {
  chunk_cache cache{8 * granule()};
  CHECK_THROWS_AS(static_cast<void>(cache.acquire(first_device, 0)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(cache.acquire(first_device, granule() + 1)),
                  std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(cache.acquire(device_ref{-1}, granule())),
                  std::invalid_argument);
}

TEST_CASE("chunk_cache: the shared one is the same every time") {
  CHECK(&chunk_cache::shared() == &chunk_cache::shared());
}

TEST_CASE("chunk_cache: threads never get the same chunk at the same time") {
  constexpr int rounds = 100;
  chunk_cache cache{16 * granule()};
  for (int round = 0; round < rounds; ++round) {
    std::array<std::vector<physical_chunk>, 4> chunks;
    in_threads(std::size_t{4}, [&](std::size_t worker) {
      for (std::size_t i = 1; i <= 3; ++i)
        chunks[worker].push_back(cache.acquire(first_device, i * granule()));
    });
    std::set<ihipMemGenericAllocationHandle*> distinct;
    for (const auto& mine : chunks)
      for (const physical_chunk& chunk : mine) distinct.insert(chunk.get());
    REQUIRE(distinct.size() == 12);
    in_threads(std::size_t{4}, [&](std::size_t worker) {
      for (physical_chunk& chunk : chunks[worker]) cache.recycle(std::move(chunk));
    });
    REQUIRE(cache.statistics().bytes <= cache.byte_limit());
  }
  const chunk_cache_statistics statistics = cache.statistics();
  CHECK(statistics.hits + statistics.misses == rounds * 12);
  CHECK(statistics.hits > 0);
}

TEST_CASE("chunk_cache: threads of all devices may acquire, recycle, trim and ask at once") {
  constexpr std::size_t rounds = 500;
  chunk_cache cache{4 * granule()};
  const auto devices = static_cast<std::size_t>(device_count());
  in_threads(std::size_t{4}, [&](std::size_t worker) {
    const device_ref device{static_cast<int>(worker % devices)};
    for (std::size_t round = 0; round < rounds; ++round) {
      physical_chunk chunk = cache.acquire(device, (1 + round % 3) * granule());
      cache.recycle(cache.acquire(device, granule()));
      cache.recycle(std::move(chunk));
      if (round % 16 == worker) cache.trim(device, granule());
      if (round % 64 == worker) cache.set_byte_limit((2 + worker) * granule());
      static_cast<void>(cache.statistics());
    }
  });
  const chunk_cache_statistics statistics = cache.statistics();
  CHECK(statistics.hits + statistics.misses == 4 * rounds * 2);
  // Each created chunk is held or was released.
  CHECK(statistics.misses == statistics.chunks + statistics.dropped);
  for (std::size_t device = 0; device < devices; ++device)
    CHECK(cache.statistics(device_ref{static_cast<int>(device)}).bytes <= cache.byte_limit());
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
