// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/small_blocks.hpp"

#include "mr/pool/allocator/pool_of.hpp"
#include "support/test.hpp"

namespace hipvmm::mr::pool {

TEST_CASE("pool: a class of small blocks holds its requests, with at most an eighth to spare") {
  for (std::size_t bytes = 1; bytes <= largest_small_block; ++bytes) {
    const std::size_t held = classes.bytes[classes.of(bytes)];
    REQUIRE(held >= bytes);
    const std::size_t rounded =
        (bytes + small_block_unit - 1) / small_block_unit * small_block_unit;
    REQUIRE(held - rounded <= rounded / 8);
    REQUIRE(classes.of(held) == classes.of(bytes));
    REQUIRE(classes.largest_in(held) == held);
    if (bytes < small_block_unit) continue;
    const std::size_t fits = classes.largest_in(bytes);
    REQUIRE(classes.bytes[classes.of(fits)] <= bytes);
    if (fits < bytes) REQUIRE(classes.bytes[classes.of(fits + 1)] > bytes);
  }
}

TEST_CASE("pool: a cache of small blocks returns the newest first and refuses more than it holds") {
  thread_cache cache;
  const std::size_t one = classes.of(4096);
  CHECK(cache.pop(one) == thread_cache::npos);
  for (std::size_t i = 0; i < thread_cache::capacity(one); ++i) REQUIRE(cache.push(one, 4096 * i));
  CHECK_FALSE(cache.push(one, 1));
  CHECK(cache.pop(one) == 4096 * (thread_cache::capacity(one) - 1));
  std::array<std::size_t, 3> oldest{};
  CHECK(cache.take(one, oldest.data(), oldest.size()) == 3);
  CHECK(oldest == std::array<std::size_t, 3>{0, 4096, 8192});
  CHECK(cache.pop(classes.of(256)) == thread_cache::npos);
}

TEST_CASE("pool: a cache of small blocks is emptied class by class") {
  thread_cache cache;
  std::size_t index = 0;
  std::array<std::size_t, thread_cache::most> taken{};
  CHECK(cache.is_empty());
  CHECK(cache.take_next(index, taken.data()) == 0);
  const std::size_t small = classes.of(256);
  const std::size_t large = classes.of(largest_small_block);
  for (const std::size_t at : {256, 512}) REQUIRE(cache.push(small, at));
  REQUIRE(cache.push(large, 65536));
  CHECK_FALSE(cache.is_empty());
  index = 0;
  CHECK(cache.take_next(index, taken.data()) == 2);
  CHECK(index == small);
  CHECK(taken[0] == 256);
  CHECK(taken[1] == 512);
  CHECK(cache.take_next(++index, taken.data()) == 1);
  CHECK(index == large);
  CHECK(taken[0] == 65536);
  CHECK(cache.take_next(++index, taken.data()) == 0);
  CHECK(cache.is_empty());
  index = 0;
  CHECK(cache.take_next(index, taken.data()) == 0);
  // The last pop leaves an empty class.
  for (const std::size_t each : {small, large}) REQUIRE(cache.push(each, 0));
  CHECK(cache.pop(small) == 0);
  index = 0;
  CHECK(cache.take_next(index, taken.data()) == 1);
  CHECK(index == large);
  CHECK(cache.is_empty());
}

TEST_CASE("pool: a cache keeps the last larger block that came back, for a request of its size") {
  thread_cache cache;
  thread_cache::block_at evicted;
  CHECK_FALSE(cache.push_block({0, 65536}, evicted));
  cache.remember({0, 65536});
  cache.remember({65536, 131072});
  CHECK_FALSE(cache.push_block({0, 131072}, evicted));
  CHECK(cache.push_block({0, 65536}, evicted));
  CHECK(evicted.bytes == 0);
  CHECK_FALSE(cache.push_block({0, 65536}, evicted));
  CHECK(cache.push_block({65536, 131072}, evicted));
  CHECK(evicted.offset == 0);
  CHECK(evicted.bytes == 65536);
  CHECK(cache.pop_block(65536) == thread_cache::npos);
  CHECK(cache.pop_block(131072) == 65536);
  CHECK(cache.pop_block(131072) == thread_cache::npos);
  CHECK(cache.push_block({65536, 131072}, evicted));
  CHECK_FALSE(cache.is_empty());
  std::atomic<int> blocks_in_transit{0};
  CHECK(cache.take_block(&blocks_in_transit).offset == 65536);
  CHECK(blocks_in_transit == 1);
  CHECK(cache.take_block(&blocks_in_transit).bytes == 0);
  CHECK(blocks_in_transit == 1);
  CHECK(cache.is_empty());
}

TEST_CASE("pool: a larger block that its cache does not keep is free at once") {
  test::pool_of pool;
  const auto user = pool.all.cache_user_of(test::hand_driven_streams::name(0));
  std::array<std::size_t, 6> blocks{};
  for (std::size_t& each : blocks) {
    const auto made = pool.all.allocate_block(user, 2 * MiB);
    REQUIRE(made);
    each = *made;
  }
  // The cache remembers fewer than six.
  CHECK_FALSE(pool.all.deallocate_block(user, blocks[0], 4 * MiB));
  REQUIRE(pool.all.find(blocks[0]));
  CHECK(pool.all.find(blocks[0])->bytes == 2 * MiB);
  CHECK(pool.all.deallocate_block(user, blocks[0], 2 * MiB));
  CHECK(pool.all.counters().used_current == 10 * MiB);
  CHECK_FALSE(pool.all.find(blocks[0]));
  CHECK_FALSE(pool.all.deallocate_block(user, blocks[0], 2 * MiB));
  CHECK_FALSE(pool.all.deallocate(pool.state(0), blocks[0], 2 * MiB));
  // The next block there has no mark of it.
  pool.take(0, 2 * MiB - 256);
  pool.give(0, blocks[0], 2 * MiB - 256);
}

TEST_CASE("pool: a block that changes caches while they are counted counts once") {
  constexpr std::size_t last = 300;  // so that a count of all caches takes time
  test::pool_of pool{last + 1};
  for (std::size_t i = 0; i <= last; ++i) pool.state(i);
  std::atomic<bool> ends{false};
  std::thread moves{[&] {
    const std::size_t one = classes.of(256);
    std::array users{pool.all.cache_user_of(test::hand_driven_streams::name(0)),
                     pool.all.cache_user_of(test::hand_driven_streams::name(last))};
    for (; !ends; std::swap(users[0], users[1])) {
      std::size_t at = pool.all.cached_small_block(users[0], one);
      if (at == thread_cache::npos) at = pool.all.allocate_small_block(users[0], one).value();
      pool.all.deallocate_small_block(users[1], one, at);
    }
  }};
  std::size_t most = 0;
  for (int i = 0; i < 20'000; ++i) most = std::max(most, pool.all.held_and_used().used_current);
  ends = true;
  moves.join();
  CHECK(most <= 1 * MiB);
}

TEST_CASE("pool: the map of small blocks has the user and the class of each") {
  block_map map{std::size_t{1} << 30};
  const std::size_t at = (std::size_t{5} << 21) + 512;
  CHECK_FALSE(map.to_cache(at, 3, 7));
  map.add(at, 3, 7, false);
  CHECK(map.user_of(at) == 7);
  CHECK_FALSE(map.is_in_cache(at));
  CHECK_FALSE(map.to_caller(at, 3, 7));
  CHECK_FALSE(map.to_cache(at, 4, 7));
  CHECK_FALSE(map.to_cache(at + 1, 3, 7));
  CHECK_FALSE(map.to_cache(at + 256, 3, 7));
  CHECK(map.to_cache(at, 3, 8));
  CHECK(map.is_in_cache(at));
  CHECK(map.is_in_cache(at));
  CHECK(map.user_of(at) == 8);
  CHECK_FALSE(map.to_cache(at, 3, 7));
  CHECK(map.to_caller(at, 3, 9));
  CHECK(map.user_of(at) == 9);
  CHECK(map.to_cache(at, 3, 8));
  map.remove(at);
  CHECK_FALSE(map.to_cache(at, 3, 8));
}

TEST_CASE("block_map: each small block has an entry of its own") {
  constexpr std::size_t count = 300'000;
  block_map map{count * small_block_unit};
  for (std::size_t i = 0; i < count; ++i)
    map.add(i * small_block_unit, i % size_class_count, i, false);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (map.user_of(i * small_block_unit) != i) ++wrong;
  }
  CHECK(wrong == 0);
}

}  // namespace hipvmm::mr::pool
