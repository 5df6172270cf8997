// SPDX-License-Identifier: MIT
// Blocks that the allocator takes back, memory that it releases to the device, and its limit.
#include "mr/pool/allocator/block_allocator.hpp"

#include "mr/pool/allocator/pool_of.hpp"
#include "support/test.hpp"

namespace hipvmm::mr::pool {

using test::pool_of;

TEST_CASE("pool: a free that matches no allocation is refused") {
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
  CHECK_FALSE(pool.all.allocate(pool.state(0), {4 * MiB, 256}));
  CHECK(pool.memory.held() == 6 * MiB);
  pool.give(0, at, 6 * MiB);
  pool.take(0, 8 * MiB);
  CHECK(pool.memory.held() == 8 * MiB);
}

TEST_CASE("pool: a device that is full is told, with what is asked for") {
  pool_of pool;
  pool.memory.capacity = 8 * MiB;
  const std::size_t at = pool.take(0, 6 * MiB);
  CHECK_THROWS_AS(static_cast<void>(pool.all.allocate(pool.state(0), {4 * MiB, 256})),
                  out_of_memory);
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
    pool.take_freed(0, 16 * MiB);
    for (std::size_t i = 1; i < all.size(); i += 2) pool.give(0, all[i], 2 * MiB);
    pool.streams.finish_all();
  }
  CHECK(pool.memory.held() <= 48 * MiB);
}

TEST_CASE("pool: a trim of many chunks looks at each of them a few times") {
  constexpr std::size_t count = 2000;
  pool_of pool;
  pool.all.set_largest_chunk(2 * MiB);
  pool.take_freed(0, count * 2 * MiB);
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

TEST_CASE("pool: a trim counts memory that others took while all addresses went as kept") {
  pool_of pool;
  pool.memory.traits.returns_memory = false;
  pool.all.set_largest_chunk(2 * MiB);
  pool.take_freed(0, 16 * MiB);
  pool.streams.finish_all();
  pool.memory.when_released = [&] { pool.take_idle(4 * MiB); };
  CHECK(pool.all.trim(8 * MiB, {}) == 12 * MiB);
  CHECK(pool.memory.held() == 8 * MiB);
}

TEST_CASE("pool: a trim goes on while a request holds free memory and waits") {
  pool_of pool;
  std::array<std::size_t, 4> parts{};
  for (std::size_t& each : parts) each = pool.take(0, 2 * MiB);
  for (const std::size_t i : {0, 2}) pool.give(0, parts[i], 2 * MiB);
  pool.all.set_limit(pool.memory.held());
  bool goes_on = false;
  pool.streams.when_waited = [&] { goes_on = pool.all.trim_some(0).may_go_on; };
  pool.take(1, 4 * MiB);
  CHECK(goes_on);
}

TEST_CASE("pool: a request uses memory of a stream whose capture ended during its wait") {
  pool_of pool{3};
  const std::size_t first = pool.take(0, 2 * MiB);
  const std::size_t second = pool.take(1, 2 * MiB);
  pool.give(0, first, 2 * MiB);
  pool.give(1, second, 2 * MiB);
  pool.all.set_limit(pool.memory.held());
  pool.streams.set_captured(0, true);
  pool.streams.when_waited = [&] { pool.streams.set_captured(0, false); };
  pool.take(2, 4 * MiB);
}

TEST_CASE("pool: a trim comes to its turn although requests come without end") {
  pool_of pool;
  pool.take_freed(0, 2 * MiB);
  pool.streams.finish_all();
  std::atomic<bool> ends{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 8; ++i)
    others.emplace_back([&] {
      while (!ends) {
        pool.all.with_backend([] { std::this_thread::sleep_for(std::chrono::microseconds{100}); });
        std::this_thread::sleep_for(std::chrono::microseconds{100});
      }
    });
  std::atomic<bool> is_over{false};
  std::thread trims{[&] {
    pool.all.trim(0, {});
    is_over = true;
  }};
  CHECK(test::comes_true([&] { return is_over.load(); }));
  ends = true;
  for (std::thread& each : others) each.join();
  trims.join();
  CHECK(pool.memory.held() == 0);
}

namespace {

/// A pool of `chunks` idle chunks of 2 MiB, one of which another thread is unmapping until
/// finish().
struct pool_beside_an_unmapping {
  explicit pool_beside_an_unmapping(std::size_t chunks) {
    pool.all.set_largest_chunk(chunk);
    std::vector<std::size_t> taken;
    for (std::size_t i = 0; i < chunks; ++i) taken.push_back(pool.take(0, chunk));
    for (const std::size_t each : taken) pool.give(0, each, chunk);
    pool.streams.finish_all();
    pool.memory.when_released = [this] {
      if (unmaps.exchange(true)) return;
      while (!is_over) std::this_thread::yield();
    };
    other = std::thread{[this, chunks] { released = pool.all.trim((chunks - 1) * chunk, {}); }};
    while (!unmaps) std::this_thread::yield();
  }
  ~pool_beside_an_unmapping() { finish(); }
  void finish() {
    is_over = true;
    if (other.joinable()) other.join();
  }

  static constexpr std::size_t chunk = 2 * MiB;
  pool_of pool;
  std::atomic<bool> unmaps{false};
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> released{0};
  std::thread other;
};

}  // namespace

TEST_CASE("pool: a trim waits for what another thread is unmapping, until its deadline") {
  using namespace std::chrono_literals;
  using clock = std::chrono::steady_clock;
  for (const std::size_t chunks : {1U, 4U}) {
    CAPTURE(chunks);
    pool_beside_an_unmapping beside{chunks};
    block_allocator& all = beside.pool.all;
    constexpr std::size_t chunk = pool_beside_an_unmapping::chunk;
    // Without a deadline, and behind it, it does not wait.
    CHECK(all.trim(0, {}) == (chunks - 1) * chunk);
    CHECK(all.counters().reserved_current == chunk);
    CHECK(all.trim(0, clock::now() + 5ms) == 0);
    CHECK(all.counters().reserved_current == chunk);
    std::atomic<bool> has_returned{false};
    std::thread trims{[&] {
      static_cast<void>(all.trim(0, clock::now() + 100s));
      has_returned = true;
    }};
    CHECK(!test::happens([&] { return has_returned.load(); }));
    beside.finish();
    trims.join();
    CHECK(beside.released == chunk);
    CHECK(all.counters().reserved_current == 0);
  }
}

TEST_CASE("pool: a trim counts what another thread is unmapping as gone") {
  pool_beside_an_unmapping beside{4};
  block_allocator& all = beside.pool.all;
  constexpr std::size_t chunk = pool_beside_an_unmapping::chunk;
  CHECK(all.trim(3 * chunk, {}) == 0);
  CHECK(all.trim(2 * chunk, {}) == chunk);
  beside.finish();
  CHECK(all.counters().reserved_current == 2 * chunk);
}

}  // namespace hipvmm::mr::pool
