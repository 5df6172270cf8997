// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/block_allocator.hpp"

#include "mr/pool/allocator/pool_of.hpp"
#include "support/test.hpp"

namespace hipvmm::mr::pool {

using test::hand_driven_streams;
using test::pool_of;

TEST_CASE("pool: memory freed in a stream is reused there without a fence or a wait") {
  pool_of pool;
  const std::size_t first = pool.take_freed(0, 1 * MiB);
  const std::size_t again = pool.take(0, 1 * MiB);
  CHECK(again == first);
  CHECK(pool.streams.marks == 0);
  CHECK(pool.served(pool_source::own_stream) == 1);
}

TEST_CASE("pool: neighbours that are freed become one") {
  pool_of pool;
  std::array<std::size_t, 4> parts{};
  for (std::size_t& each : parts) each = pool.take(0, 512 * KiB);
  CHECK(pool.memory.created == 1);
  for (const std::size_t index : {1, 3, 0, 2})
    pool.give(0, parts[static_cast<std::size_t>(index)], 512 * KiB);
  CHECK(pool.take(0, 2 * MiB) == parts[0]);
  CHECK(pool.memory.created == 1);
}

TEST_CASE("pool: the smallest hole that holds a request serves it") {
  pool_of pool;
  const std::size_t large = pool.take(0, 1 * MiB);
  pool.take(0, 64 * KiB);
  const std::size_t small = pool.take(0, 256 * KiB);
  pool.take(0, 64 * KiB);
  pool.give(0, large, 1 * MiB);
  pool.give(0, small, 256 * KiB);
  CHECK(pool.take(0, 192 * KiB) == small);
}

TEST_CASE("pool: small blocks fill holes, idle ones too, before a larger block of their stream") {
  // More than a whole batch, that, and a quarter of it.
  for (const std::size_t hole_bytes : {256 * KiB, 32 * KiB, 8 * KiB}) {
    CAPTURE(hole_bytes);
    pool_of pool{1};
    const std::size_t hole = pool.take(0, hole_bytes);
    pool.take(0, 64 * KiB);
    pool.give(0, hole, hole_bytes);
    pool.streams.finish(0);
    // A request that misses makes the hole idle.
    const std::size_t large = pool.take_freed(0, 64 * MiB);
    const auto user = pool.all.cache_user_of(hand_driven_streams::name(0));
    const auto small = pool.all.allocate_small_block(user, mr::pool::classes.of(4 * KiB));
    REQUIRE(small);
    CHECK(*small == hole);
    // The large block is whole.
    CHECK(pool.take(0, 64 * MiB) <= large);
    CHECK(pool.served(pool_source::new_chunks) == 2);
  }
}

TEST_CASE("pool: a block with the alignment is found behind many that lack it") {
  pool_of pool;
  // Free memory of 4 MiB: 18 blocks of 64 KiB that begin at no multiple of that, and one that is
  // just large enough to hold such a block at any offset.
  pool.give(0, pool.take(0, 4 * MiB), 4 * MiB);
  pool.all.set_limit(4 * MiB);
  std::vector<std::size_t> holes;
  pool.take(0, 256);
  for (int i = 0; i < 18; ++i) {
    holes.push_back(pool.take(0, 64 * KiB));
    pool.take(0, 256);
  }
  const std::size_t large = pool.take(0, 128 * KiB - 256);
  pool.take(0, 4 * MiB - large - (128 * KiB - 256));
  for (const std::size_t each : holes) pool.give(0, each, 64 * KiB);
  pool.give(0, large, 128 * KiB - 256);
  const std::size_t at = pool.take(0, 64 * KiB, 64 * KiB);
  CHECK(at >= large);
  CHECK(at % (64 * KiB) == 0);
  // By itself, not by the walk of a miss.
  CHECK(pool.served(pool_source::internal_dependency) == 0);
}

TEST_CASE("pool: another stream's memory is used once that stream has passed") {
  pool_of pool;
  pool.all.set_reuse({false, true, false});
  const std::size_t first = pool.take_freed(0, 2 * MiB);
  SUBCASE("before, new memory is taken") {
    CHECK(pool.take(1, 2 * MiB) != first);
    CHECK(pool.served(pool_source::new_chunks) == 2);
  }
  SUBCASE("after, that memory") {
    pool.streams.finish(0);
    CHECK(pool.take(1, 2 * MiB) == first);
    CHECK(pool.served(pool_source::opportunistic) == 1);
    CHECK(pool.streams.waits == 0);
  }
}

TEST_CASE("pool: a stream reuses memory of a stream that it is declared to wait for") {
  pool_of pool;
  pool.all.set_reuse({true, false, false});
  const std::size_t first = pool.take_freed(0, 2 * MiB);
  pool.streams.wait(1, 0);
  pool.all.add_dependency(pool.state(1), pool.state(0));
  CHECK(pool.take(1, 2 * MiB) == first);
  CHECK(pool.served(pool_source::followed_stream) == 1);
  CHECK(pool.streams.waits == 0);
}

TEST_CASE("pool: a declared wait does not cover memory that is freed later") {
  pool_of pool;
  pool.all.set_reuse({true, false, false});
  const std::size_t first = pool.take(0, 2 * MiB);
  pool.streams.wait(1, 0);
  pool.all.add_dependency(pool.state(1), pool.state(0));
  pool.memory.use(0, first, 2 * MiB);
  pool.give(0, first, 2 * MiB);
  CHECK(pool.take(1, 2 * MiB) != first);
}

TEST_CASE("pool: a stream is made to wait for another one's memory, where that is allowed") {
  pool_of pool;
  pool.all.set_reuse({false, false, true});
  const std::size_t first = pool.take_freed(0, 2 * MiB);
  CHECK(pool.take(1, 2 * MiB) == first);
  CHECK(pool.served(pool_source::internal_dependency) == 1);
  CHECK(pool.streams.waits == 1);
}

TEST_CASE("pool: with all reuse switched off streams share nothing before memory runs out") {
  pool_of pool;
  pool.all.set_reuse({false, false, false});
  pool.all.set_limit(4 * MiB);
  const std::size_t first = pool.take_freed(0, 2 * MiB);
  CHECK(pool.take(1, 2 * MiB) != first);
  CHECK(pool.take(1, 2 * MiB) == first);
  CHECK(pool.served(pool_source::waited) == 1);
  CHECK(pool.streams.host_waits == 1);
}

TEST_CASE("pool: a request waits once for what other streams freed, whatever comes meanwhile") {
  pool_of pool;
  pool.all.set_reuse({false, false, false});
  pool.all.set_limit(4 * MiB);
  const std::size_t first = pool.take(0, 2 * MiB);
  const std::size_t second = pool.take(0, 1 * MiB);
  const std::size_t third = pool.take(0, 1 * MiB);
  pool.give(0, second, 1 * MiB);
  // While it waits somebody else frees.
  pool.streams.when_waited = [&] {
    pool.memory.use(0, third, 1 * MiB);
    pool.give(0, third, 1 * MiB);
  };
  CHECK_FALSE(pool.all.allocate(pool.state(1), {3 * MiB, 256}));
  CHECK(pool.streams.host_waits == 1);
  pool.give(0, first, 2 * MiB);
}

TEST_CASE("pool: no other thread makes a fence in a thread's default stream") {
  for (const bool aliases : {false, true}) {
    pool_of pool{3, aliases};
    for (int i = 0; i < 4; ++i) {
      const std::size_t hole = pool.take(0, 2 * MiB);
      pool.take(0, 2 * MiB);
      pool.give(0, hole, 2 * MiB);
    }
    std::thread{[&] {
      pool.streams.set_thread_of(1, std::this_thread::get_id());
      stream_state& own = pool.all.state_of_thread(hand_driven_streams::name(1));
      pool.streams.wait(1, 0);
      pool.all.add_dependency(own, pool.state(0));
      // Parts of the memory that it waits for and of the memory made for it stay free.
      for (const std::size_t bytes : {1 * MiB, 3 * MiB}) {
        const auto at = pool.all.allocate(own, {bytes, 256});
        REQUIRE(at);
        pool.memory.use(1, *at, bytes);
      }
    }}.join();
    const std::uint64_t marks = pool.streams.marks;
    pool.take(2, 8 * MiB);
    CHECK(pool.streams.foreign_marks == 0);
    CHECK(pool.streams.marks == marks);  // nor one of all streams in its place
  }
}

TEST_CASE("pool: neighbours of two streams serve one request together") {
  pool_of pool;
  const std::size_t first = pool.take(0, 1 * MiB);
  const std::size_t second = pool.take(0, 1 * MiB);
  pool.give(0, first, 1 * MiB);
  pool.give(1, second, 1 * MiB);
  CHECK(pool.take(1, 2 * MiB) == first);
  CHECK(pool.memory.created == 1);
}

TEST_CASE("pool: idle chunks move to where a request needs them") {
  pool_of pool;
  std::vector<std::size_t> all;
  for (int i = 0; i < 8; ++i) all.push_back(pool.take(0, 2 * MiB));
  for (std::size_t i = 0; i < all.size(); i += 2) pool.give(0, all[i], 2 * MiB);
  pool.streams.finish_all();
  pool.take(0, 8 * MiB);
  CHECK(pool.memory.created == 8);
  CHECK(pool.memory.held() == 16 * MiB);
  CHECK(pool.served(pool_source::moved_chunks) == 1);
}

TEST_CASE("pool: chunks in use move, and nobody waits where one chunk may have two addresses") {
  for (const bool aliases : {false, true}) {
    pool_of pool{2, aliases};
    std::vector<std::size_t> all;
    for (int i = 0; i < 8; ++i) all.push_back(pool.take(0, 2 * MiB));
    for (std::size_t i = 0; i < all.size(); i += 2) pool.give(0, all[i], 2 * MiB);
    const std::size_t large = pool.take(0, 8 * MiB);
    CHECK(pool.memory.held() == 16 * MiB);
    CHECK((pool.streams.host_waits == 0) == aliases);
    pool.give(0, large, 8 * MiB);
    // A later miss ends the old addresses of moved chunks.
    pool.streams.finish_all();
    pool.take(0, 32 * MiB);
    pool.streams.finish_all();
    pool.take(0, 64 * MiB);
    CHECK(pool.memory.held() == (8 + 32 + 64) * MiB);
  }
}

TEST_CASE("pool: memory that an event of the program covers needs no fence") {
  pool_of pool;
  const std::size_t before = pool.take(0, 2 * MiB);
  pool.take(0, 2 * MiB);  // neighbours would become one, freed behind the point
  const std::size_t behind = pool.take(0, 2 * MiB);
  pool.give(0, before, 2 * MiB);
  const detail::stream_point reached = pool.all.current_epoch(hand_driven_streams::name(0));
  REQUIRE(reached.stream == &pool.state(0));
  pool.give(0, behind, 2 * MiB);
  SUBCASE("that the stream has passed") {
    pool.streams.advance(0, pool.streams.submitted(0) - 1);
    pool.all.note_passed(reached);
    pool.all.set_reuse({false, true, false});
    CHECK(pool.take(1, 2 * MiB) == before);
    CHECK(pool.served(pool_source::opportunistic) == 1);
  }
  SUBCASE("that another stream waits") {
    pool.streams.wait(1, 0);
    pool.all.add_dependency(hand_driven_streams::name(1), reached);
    pool.all.set_reuse({true, false, false});
    CHECK(pool.take(1, 2 * MiB) == before);
    CHECK(pool.served(pool_source::followed_stream) == 1);
    CHECK(pool.streams.marks == 0);
  }
  CHECK(pool.take(1, 2 * MiB) != behind);
}

TEST_CASE("pool: a stream without memory in use has no epoch to wait for") {
  pool_of pool;
  CHECK(pool.all.current_epoch(hand_driven_streams::name(0)).stream == nullptr);
  const std::size_t at = pool.take(0, 2 * MiB);
  CHECK(pool.all.current_epoch(hand_driven_streams::name(0)).stream == nullptr);
  pool.give(0, at, 2 * MiB);
  const detail::stream_point first = pool.all.current_epoch(hand_driven_streams::name(0));
  const detail::stream_point second = pool.all.current_epoch(hand_driven_streams::name(0));
  CHECK(first.count == second.count);
  pool.all.note_passed(second);
  CHECK(pool.all.current_epoch(hand_driven_streams::name(0)).stream == nullptr);
}

TEST_CASE("pool: what a captured stream freed waits for the capture's end, and hinders nobody") {
  pool_of pool;
  const std::size_t first = pool.take(0, 3 * MiB);
  const std::size_t last = pool.take_freed(0, 1 * MiB);
  pool.streams.set_captured(0, true);
  SUBCASE("its memory lies where another's request would go") {
    CHECK(pool.take(1, 4 * MiB) != last);
    CHECK(pool.take(1, 1 * MiB) != last);
  }
  SUBCASE("memory for all streams is wanted") { pool.take_idle(1 * MiB); }
  SUBCASE("it wants more itself, and is not made to wait") {
    const std::size_t other = pool.take_freed(1, 2 * MiB);
    CHECK(pool.take(0, 2 * MiB) != other);
    CHECK(pool.take(0, 1 * MiB) == last);
    pool.give(0, last, 1 * MiB);
  }
  SUBCASE("memory is short") {
    pool.all.set_limit(4 * MiB);
    CHECK_FALSE(pool.all.allocate(pool.state(1), {1 * MiB, 256}));
  }
  CHECK(pool.streams.waits == 0);
  CHECK_THROWS_AS(pool.all.forget(hand_driven_streams::name(0)), std::invalid_argument);
  pool.streams.set_captured(0, false);
  pool.all.set_limit(pool.memory.held());
  pool.all.trim(0, {});
  pool.give(0, first, 3 * MiB);
  pool.take(1, 4 * MiB);
}

namespace {

/// Four chunks of stream 0 that moved while in use, as one block at `large`.
struct pool_amid_moves : pool_of {
  pool_amid_moves() : pool_of{2, true} {
    for (std::size_t& each : parts) each = take(0, 2 * MiB);
    for (std::size_t i = 0; i < parts.size(); i += 2) give(0, parts[i], 2 * MiB);
    large = take(0, 8 * MiB);
    REQUIRE(memory.held() == 16 * MiB);
    REQUIRE(memory.mappings() == 12);
  }
  std::array<std::size_t, 8> parts{};
  std::size_t large = 0;
};

}  // namespace

TEST_CASE("pool: memory with two addresses is counted once, and both count as mapped") {
  pool_amid_moves pool;
  CHECK(pool.all.counters().reserved_current == 16 * MiB);
  CHECK(pool.all.usage_snapshot().reserved_current == 16 * MiB);
  CHECK(pool.all.usage_snapshot().mapped_bytes == 24 * MiB);
  CHECK(pool.all.usage_snapshot().largest_moved == 0);
}

TEST_CASE("pool: old addresses are unmapped by a call after their work has passed, not before") {
  pool_amid_moves pool;
  pool.all.unmap_old_addresses();
  CHECK(pool.memory.mappings() == 12);
  // The unmap does not wait for work that the stream got since then.
  pool.streams.advance(0, pool.streams.submitted(0) - 1);
  pool.all.unmap_old_addresses();
  CHECK(pool.memory.mappings() == 8);
  CHECK(pool.all.usage_snapshot().mapped_bytes == 16 * MiB);
}

TEST_CASE("pool: old addresses that HIP does not unmap are unmapped later, and not reused before") {
  pool_amid_moves pool;
  pool.streams.finish_all();
  pool.memory.keeps_mappings = true;
  pool.all.unmap_old_addresses();
  CHECK(pool.memory.mappings() == 9);
  CHECK(pool.all.usage_snapshot().mapped_bytes == 18 * MiB);
  pool.take(0, 32 * MiB);
  CHECK(pool.memory.mappings() == 9 + 4);
  // No caller may ask again and again for an unmap that HIP has refused.
  CHECK_FALSE(pool.all.has_addresses_to_unmap());
  pool.all.unmap_old_addresses();
  CHECK(pool.memory.mappings() == 8 + 4);
  CHECK_FALSE(pool.all.has_addresses_to_unmap());
}

TEST_CASE("pool: memory that goes leaves its old addresses too, known to have passed or not") {
  pool_amid_moves pool;
  pool.streams.wait(1, 0);
  pool.all.add_dependency(pool.state(1), pool.state(0));
  pool.give(0, pool.large, 8 * MiB);
  const std::size_t taken = pool.take(1, 8 * MiB);
  CHECK(taken == pool.large);
  pool.give(1, taken, 8 * MiB);
  // Asked before, stream 0 is not done; asked then, stream 1 is, which follows it.
  pool.streams.finishes_after_poll = true;
  CHECK(pool.all.trim(0, {}) == 8 * MiB);
  CHECK(pool.memory.mappings() == 4);
}

TEST_CASE("pool: a trim returns no more than was held, whatever others free meanwhile") {
  for (const std::size_t keep : {std::size_t{0}, 16 * MiB}) {
    pool_of pool;
    std::array<std::size_t, 8> parts{};
    for (std::size_t& each : parts) each = pool.take(0, 8 * MiB);
    for (const std::size_t each : parts) pool.give(0, each, 8 * MiB);
    pool.streams.finish_all();
    const std::size_t held = pool.all.counters().reserved_current;
    int others = 0;
    pool.memory.when_released = [&] {
      if (++others > 100) return;
      const std::size_t at = pool.take_idle(8 * MiB);
      REQUIRE(pool.all.deallocate(pool.all.idle(), at, 8 * MiB));
    };
    const std::size_t returned = pool.all.trim(keep, {});
    CHECK(returned <= held - keep);
    CHECK(returned > 0);
    CHECK(others < 100);
  }
}

TEST_CASE("pool: memory for all streams is idle") {
  pool_of pool;
  const std::size_t first = pool.take_freed(0, 2 * MiB);
  // Work of any length may precede the free.
  const std::size_t fresh = pool.take_idle(2 * MiB);
  CHECK(fresh != first);
  pool.all.set_limit(4 * MiB);
  const std::size_t at = pool.take_idle(2 * MiB);
  CHECK(at == first);
  pool.memory.require_idle(at, 2 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.idle(), at, 2 * MiB));
  CHECK(pool.take(1, 2 * MiB) == first);
}

TEST_CASE("pool: a request without a stream takes what was freed without one, passed or not") {
  pool_of pool;
  pool.all.set_reuse({false, false, false});
  const std::size_t first = pool.take_idle(2 * MiB);
  pool.memory.use(0, first, 2 * MiB);
  REQUIRE(pool.all.deallocate(pool.all.all_streams(), first, 2 * MiB));
  SUBCASE("under way") {}
  SUBCASE("passed, as a request of a stream has seen") {
    pool.take(1, 2 * MiB);  // records the fence
    pool.streams.finish_all();
    pool.take(1, 2 * MiB);
  }
  CHECK(pool.take_idle(2 * MiB) == first);
  CHECK(pool.served(pool_source::waited) == 1);
}

TEST_CASE("pool: a request without a stream waits briefly for memory that a stream freed") {
  pool_of pool;
  const std::size_t first = pool.take_freed(0, 2 * MiB);
  // The first query finds the work under way, the next finds it done.
  pool.streams.finishes_after_poll = true;
  const std::size_t at = pool.take_idle(2 * MiB);
  CHECK(at == first);
  CHECK(pool.served(pool_source::waited) == 1);
  CHECK(pool.streams.host_waits == 0);
  CHECK(pool.all.counters().reserved_current == 2 * MiB);
}

TEST_CASE("pool: a request without a stream waits as briefly if the pool holds much more") {
  pool_of pool;
  pool.take_freed(0, GiB);
  // The work before the free may wait for this thread.
  const auto began = std::chrono::steady_clock::now();
  pool.take_idle(2 * MiB);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{5});
  CHECK(pool.served(pool_source::waited) == 0);
}

TEST_CASE("pool: without opportunistic reuse a request without a stream takes new memory at once") {
  pool_of pool;
  pool.all.set_reuse({.allow_opportunistic = false});
  const std::size_t first = pool.take_freed(0, 2 * MiB);
  pool.streams.finishes_after_poll = true;
  const std::size_t at = pool.take_idle(2 * MiB);
  CHECK(at != first);
}

TEST_CASE("pool: on a full device what would fit counts small chunks that would move") {
  pool_of pool{1, true};
  std::vector<std::size_t> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(pool.take(0, 2 * MiB));
  REQUIRE(pool.memory.created == 8);
  pool.take(0, 48 * MiB);
  pool.memory.capacity = pool.memory.held();
  for (std::size_t i = 0; i < parts.size(); i += 2) pool.give(0, parts[i], 2 * MiB);
  pool.streams.finish_all();
  const auto seen = pool.all.usage_snapshot(new_memory{0});
  CHECK(seen.largest_moved == 2 * MiB);  // a new chunk would come before such moves
  CHECK(seen.largest_possible == 8 * MiB);
  pool.take(0, 8 * MiB);
  CHECK(pool.all.counters().reserved_current == pool.memory.capacity);
}

TEST_CASE("pool: alignment is that of the address") {
  pool_of pool;
  for (std::size_t alignment = 256; alignment <= 8 * MiB; alignment *= 2) {
    pool.take(0, 64 * KiB);
    const std::size_t at = pool.take(0, 64 * KiB, alignment);
    CHECK((2 * MiB + at) % alignment == 0);
  }
}

}  // namespace hipvmm::mr::pool
