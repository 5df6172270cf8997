// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/block_allocator.hpp"
#include "mr/pool/allocator/pool_of.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/test.hpp"

// The state after a failure of HIP, or of the host's memory.
namespace hipvmm::mr::pool {

using test::hand_driven_streams;
using test::pool_of;

namespace {

/// Sixteen chunks of which every other one was freed, by two streams in turn.
struct worn_pool : pool_of {
  worn_pool() : pool_of{3} {
    for (int i = 0; i < 16; ++i) parts.push_back(take(0, 2 * MiB));
    streams.wait(1, 0);
    for (std::size_t i = 0; i < parts.size(); i += 2) give(i % 4 / 2, parts[i], 2 * MiB);
    used = all.counters().used_current;
  }
  /// Whether every byte that is held is in use or free.
  void verify() {
    const allocator_statistics seen = all.usage_snapshot();
    std::size_t free_bytes = 0;
    for (const auto& each : seen.streams) free_bytes += each.free_bytes;
    CHECK(seen.reserved_current == memory.held());
    CHECK(seen.used_current + free_bytes == seen.reserved_current);
  }

  std::vector<std::size_t> parts;
  std::size_t used;
};

/// Fails each allocation of the host in turn. Each failure leaves the used blocks unchanged.
void sweep(const std::string& name, const std::function<void(worn_pool&)>& operation) {
  for (std::uint64_t nth = 1; nth < 1000; ++nth) {
    INFO(name << ", allocation " << nth << " of the host failing");
    worn_pool subject;
    bool thrown = false;
    bool struck = false;
    {
      const test::allocation_failure failure{nth};
      try {
        operation(subject);
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      struck = failure.struck();
    }
    CHECK(thrown == struck);
    if (thrown) CHECK(subject.all.counters().used_current == subject.used);
    subject.verify();
    if (!struck) {
      CHECK(nth > 1);
      return;
    }
  }
  FAIL("more allocations than any operation makes");
}

}  // namespace

TEST_CASE("pool: a growth that fails leaves everything to be used") {
  for (const auto& [aliases, passed] : {std::pair{false, false}, {false, true}, {true, false}}) {
    bool failed = true;
    for (std::uint64_t call = 1; failed; ++call) {
      pool_of pool{2, aliases};
      std::vector<std::size_t> all;
      for (int i = 0; i < 8; ++i) all.push_back(pool.take(0, 2 * MiB));
      pool.streams.wait(1, 0);
      for (std::size_t i = 0; i < all.size(); i += 2) pool.give(i % 4 / 2, all[i], 2 * MiB);
      if (passed) pool.streams.finish_all();
      pool.memory.fails_at = call;
      try {
        const auto served = pool.all.allocate(pool.state(0), {40 * MiB, 256});
        failed = false;
        pool.memory.fails_at = 0;
        REQUIRE(served);
        CHECK(pool.all.deallocate(pool.state(0), *served, 40 * MiB));
        CHECK(call > 2);
      } catch (const hip_error&) {
        CHECK(pool.memory.fails_at == 0);
      }
      CHECK(pool.all.counters().reserved_current == pool.memory.held());
      pool.take(1, 40 * MiB);
      pool.streams.wait(1, 0);
      for (std::size_t i = 1; i < all.size(); i += 2) pool.give(1, all[i], 2 * MiB);
      pool.streams.finish_all();
      pool.take(0, pool.memory.held() - 40 * MiB);
    }
  }
}

TEST_CASE("pool: without memory of the host a request fails and loses nothing") {
  const auto allocate = [](std::size_t stream, std::size_t bytes, bool passed) {
    return [=](worn_pool& pool) {
      if (passed) pool.streams.finish_all();
      static_cast<void>(pool.all.allocate(pool.state(stream), {bytes, 256}));
    };
  };
  sweep("memory that has passed", allocate(2, 2 * MiB, true));
  sweep("memory of another stream", allocate(2, 2 * MiB, false));
  sweep("moved and new chunks", allocate(2, 24 * MiB, true));
  sweep("new chunks", allocate(2, 24 * MiB, false));
  sweep("pieces", [](worn_pool& pool) {
    const auto user = pool.all.cache_user_of(hand_driven_streams::name(0));
    static_cast<void>(pool.all.allocate_small_block(user, classes.of(1000)));
  });
  sweep("a block by way of the cache", [](worn_pool& pool) {
    const auto user = pool.all.cache_user_of(hand_driven_streams::name(1));
    static_cast<void>(pool.all.allocate_block(user, 20 * MiB));
  });
}

TEST_CASE("pool: without memory of the host a trim fails and loses nothing") {
  sweep("trim", [](worn_pool& pool) {
    pool.streams.finish_all();
    pool.all.trim(0, {});
  });
}

TEST_CASE("pool: without memory of the host nothing is reused that no fence covers") {
  sweep("deallocate_and_record", [](worn_pool& pool) {
    stream_state& own = pool.all.state_of_thread(hand_driven_streams::name(2));
    static_cast<void>(pool.all.deallocate_and_record(own, pool.parts[1], 2 * MiB));
  });
  sweep("forget", [](worn_pool& pool) { pool.all.forget(hand_driven_streams::name(0)); });
}

TEST_CASE("pool: a claim that ends beside memory freed meanwhile keeps the newer epoch") {
  pool_of pool{3};
  const std::size_t first = pool.take(1, 2 * MiB);
  const std::size_t behind = pool.take(1, 2 * MiB);
  REQUIRE(behind == first + 2 * MiB);
  pool.take(1, 2 * MiB);
  pool.give(1, first, 2 * MiB);
  // A growth claims the first chunk, to move it, and waits for stream 1, which goes on meanwhile.
  pool.streams.when_waited = [&, freed = false]() mutable {
    if (std::exchange(freed, true)) return;
    pool.memory.use(1, behind, 2 * MiB);
    pool.give(1, behind, 2 * MiB);
    pool.memory.fails_at = 1;
  };
  CHECK_THROWS_AS(static_cast<void>(pool.all.allocate(pool.state(0), {8 * MiB, 256})), hip_error);
  REQUIRE(pool.memory.fails_at == 0);
  pool.all.set_reuse({false, true, false});
  const std::size_t at = pool.take(2, 4 * MiB);
  CHECK((at >= behind + 2 * MiB || at + 4 * MiB <= first));
}

TEST_CASE("pool: growths that wait at once have the blocks that each needs to end") {
  constexpr std::size_t count = 12;
  pool_of pool{count};
  pool.all.set_largest_chunk(2 * MiB);
  // Idle memory that can be cut, in a chunk that cannot move.
  const std::size_t idle = pool.take_idle(1 * MiB);
  pool.take_idle(1 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.idle(), idle, 1 * MiB));
  std::array<std::size_t, 4 * count> parts{};
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = pool.take(i / 4, 2 * MiB);
  for (std::size_t i = 0; i < parts.size(); i += 2) pool.give(i / 4, parts[i], 2 * MiB);
  pool.all.set_limit(pool.memory.held());
  std::size_t next = 0;
  std::size_t served = 0;
  const auto grow = [&] {
    served += pool.all.allocate(pool.state(next++), {4 * MiB - 256, 256}).has_value();
  };
  pool.streams.when_waited = [&] {
    if (next < count) return grow();
    if (next++ > count) return;
    for (int i = 0; i < 40; ++i) pool.take_idle(256);
  };
  grow();
  CHECK(served == count);
  CHECK(pool.served(pool_source::moved_chunks) == count);
}

TEST_CASE("pool: addresses that cannot be renewed leave all memory to be used") {
  pool_of pool;
  pool.memory.traits.returns_memory = false;
  pool.give(0, pool.take(0, 8 * MiB), 8 * MiB);
  pool.streams.finish_all();
  pool.memory.fails_at = 1;
  CHECK_THROWS_AS(static_cast<void>(pool.all.trim(0, {})), hip_error);
  CHECK(pool.all.counters().reserved_current == 8 * MiB);
  const auto created = pool.memory.created;
  pool.take(0, 8 * MiB);
  CHECK(pool.memory.created == created);
}

}  // namespace hipvmm::mr::pool
