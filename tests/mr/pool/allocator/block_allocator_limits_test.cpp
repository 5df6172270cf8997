// SPDX-License-Identifier: MIT
// What the allocator takes back, gives to the device, and does without.
#include "mr/pool/allocator/block_allocator.hpp"

#include <doctest/doctest.h>

#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "mr/pool/allocator/pool_of.hpp"

namespace hipvmm::mr::pool {

using test::pool_of;

TEST_CASE("pool: what is not in use is not taken back") {
  pool_of pool;
  const std::size_t at = pool.take(0, 1 * MiB);
  CHECK_FALSE(pool.all.deallocate(pool.state(0), at, 512 * KiB));
  CHECK_FALSE(pool.all.deallocate(pool.state(0), at + 256, 1 * MiB));
  pool.give(0, at, 1 * MiB);
  CHECK_FALSE(pool.all.deallocate(pool.state(0), at, 1 * MiB));
}

TEST_CASE("pool: the limit is kept, and what is over it is refused and changes nothing") {
  pool_of pool;
  pool.all.set_limit(8 * MiB);
  const std::size_t at = pool.take(0, 6 * MiB);
  CHECK_FALSE(pool.all.allocate(pool.state(0), 4 * MiB, 256));
  CHECK(pool.memory.held() == 6 * MiB);
  pool.give(0, at, 6 * MiB);
  pool.take(0, 8 * MiB);
  CHECK(pool.memory.held() == 8 * MiB);
}

TEST_CASE("pool: a device that is full is told, with what is asked for") {
  pool_of pool;
  pool.memory.capacity = 8 * MiB;
  const std::size_t at = pool.take(0, 6 * MiB);
  CHECK_THROWS_AS(static_cast<void>(pool.all.allocate(pool.state(0), 4 * MiB, 256)), out_of_memory);
  pool.give(0, at, 6 * MiB);
  pool.take(0, 8 * MiB);
}

TEST_CASE("pool: addresses that were emptied are used again") {
  pool_of pool{1, false, 256 * MiB};
  for (int round = 0; round < 50; ++round) {
    std::vector<std::size_t> all;
    for (int i = 0; i < 16; ++i) all.push_back(pool.take(0, 2 * MiB));
    for (std::size_t i = 0; i < all.size(); i += 2) pool.give(0, all[i], 2 * MiB);
    pool.streams.finish_all();
    const std::size_t large = pool.take(0, 16 * MiB);
    pool.give(0, large, 16 * MiB);
    for (std::size_t i = 1; i < all.size(); i += 2) pool.give(0, all[i], 2 * MiB);
    pool.streams.finish_all();
  }
  CHECK(pool.memory.held() <= 48 * MiB);
}

TEST_CASE("pool: a trim of many chunks looks at each of them a few times") {
  constexpr std::size_t count = 2000;
  pool_of pool;
  pool.all.set_largest_chunk(2 * MiB);
  const std::size_t all = pool.take(0, count * 2 * MiB);
  pool.give(0, all, count * 2 * MiB);
  pool.streams.finish_all();
  std::size_t turns = 0;
  std::size_t returned = 0;
  for (bool goes_on = true; goes_on; ++turns) {
    const auto some = pool.all.trim_some(0);
    goes_on = some.may_go_on;
    returned += some.bytes;
  }
  CHECK(returned == count * 2 * MiB);
  CHECK(pool.memory.held() == 0);
  CHECK(turns < count / 8);
}

TEST_CASE("pool: a growth that fails leaves everything to be used") {
  for (const bool aliases : {false, true}) {
    for (std::uint64_t call = 1; call <= 8; ++call) {
      pool_of pool{2, aliases};
      std::vector<std::size_t> all;
      for (int i = 0; i < 8; ++i) all.push_back(pool.take(0, 2 * MiB));
      pool.streams.wait(1, 0);
      for (std::size_t i = 0; i < all.size(); i += 2) pool.give(i % 4 / 2, all[i], 2 * MiB);
      pool.memory.fails_at = call;
      CHECK_THROWS_AS(static_cast<void>(pool.all.allocate(pool.state(0), 40 * MiB, 256)),
                      hip_error);
      CHECK(pool.memory.fails_at == 0);
      CHECK(pool.all.counters().physical_bytes == pool.memory.held());
      pool.take(1, 40 * MiB);
      pool.streams.wait(1, 0);
      for (std::size_t i = 1; i < all.size(); i += 2) pool.give(1, all[i], 2 * MiB);
      pool.streams.finish_all();
      pool.take(0, pool.memory.held() - 40 * MiB);
    }
  }
}

}  // namespace hipvmm::mr::pool
