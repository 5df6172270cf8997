// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_cache.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "support/devices.hpp"
#include "support/random_seed.hpp"

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

TEST_CASE("chunk_cache: a chunk that came back is handed out again") {
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

TEST_CASE("chunk_cache: bytes must match exactly") {
  chunk_cache cache{64 * granule()};
  cache.recycle(cache.acquire(first_device, 2 * granule()));
  CHECK(cache.acquire(first_device, granule()).bytes() == granule());
  CHECK(cache.acquire(first_device, 3 * granule()).bytes() == 3 * granule());
  CHECK(cache.statistics().hits == 0);
}

TEST_CASE("chunk_cache: the handle type must match") {
  chunk_cache cache{64 * granule()};
  cache.recycle(cache.acquire(first_device, granule(), handle_type::posix_fd));
  const physical_chunk ordinary = cache.acquire(first_device, granule());
  CHECK(ordinary.shareable() == handle_type::none);
  CHECK(cache.statistics().hits == 0);
}

TEST_CASE("chunk_cache: the device must match") {
  if (device_count() < 2) {
    MESSAGE("skipped: this machine has no second device");
    return;
  }
  chunk_cache cache{64 * granule()};
  cache.recycle(cache.acquire(first_device, granule()));
  CHECK(cache.acquire(device_ref{1}, granule()).device() == device_ref{1});
  CHECK(cache.statistics().hits == 0);
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
}

TEST_CASE("chunk_cache: a chunk larger than the limit displaces nothing") {
  chunk_cache cache{2 * granule()};
  physical_chunk large = cache.acquire(first_device, 3 * granule());
  cache.recycle(cache.acquire(first_device, granule()));
  cache.recycle(std::move(large));
  CHECK(cache.statistics().bytes == granule());
  CHECK(cache.statistics().dropped == 1);
}

TEST_CASE("chunk_cache: a smaller limit applies at once") {
  chunk_cache cache{8 * granule()};
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 8; ++i) chunks.push_back(cache.acquire(first_device, granule()));
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
  cache.set_byte_limit(3 * granule());
  CHECK(cache.byte_limit() == 3 * granule());
  CHECK(cache.statistics().bytes == 3 * granule());
}

TEST_CASE("chunk_cache: trim gives back down to what is to be kept and says how much") {
  chunk_cache cache{8 * granule()};
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 8; ++i) chunks.push_back(cache.acquire(first_device, granule()));
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
  CHECK(cache.trim(5 * granule()) == 3 * granule());
  CHECK(cache.trim(5 * granule()) == 0);
  CHECK(cache.trim() == 5 * granule());
  CHECK(cache.statistics().chunks == 0);
  CHECK(cache.statistics().dropped == 8);
}

TEST_CASE("chunk_cache: trim gives back first what came back first") {
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
  std::array<std::vector<ihipMemGenericAllocationHandle*>, 4> held;
  for (int round = 0; round < rounds; ++round) {
    std::array<std::vector<physical_chunk>, 4> chunks;
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < held.size(); ++worker)
      workers.emplace_back([&, worker] {
        for (std::size_t i = 1; i <= 3; ++i)
          chunks[worker].push_back(cache.acquire(first_device, i * granule()));
      });
    for (std::thread& worker : workers) worker.join();
    std::set<ihipMemGenericAllocationHandle*> distinct;
    for (const auto& mine : chunks)
      for (const physical_chunk& chunk : mine) distinct.insert(chunk.get());
    REQUIRE(distinct.size() == 12);
    workers.clear();
    for (auto& mine : chunks)
      workers.emplace_back([&] {
        for (physical_chunk& chunk : mine) cache.recycle(std::move(chunk));
      });
    for (std::thread& worker : workers) worker.join();
    REQUIRE(cache.statistics().bytes <= cache.byte_limit());
  }
  const chunk_cache_statistics statistics = cache.statistics();
  CHECK(statistics.hits + statistics.misses == rounds * 12);
  CHECK(statistics.hits > 0);
}

}  // namespace
}  // namespace hipvmm::test
