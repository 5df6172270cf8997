// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/stream_timeline.hpp"

#include "mr/pool/allocator/pool_of.hpp"
#include "support/test.hpp"

// The states of streams that are gone, and the knowledge of them.
namespace hipvmm::mr::pool {

using test::hand_driven_streams;
using test::pool_of;
using test::pool_source;

TEST_CASE("pool: the states of streams that were forgotten serve others") {
  pool_of pool;
  pool.take(1, 1 * MiB);
  for (int i = 0; i < 100; ++i) {
    pool.all.add_dependency(pool.state(1), pool.state(0));
    pool.take_freed(0, 4 * MiB);
    pool.all.forget(hand_driven_streams::name(0));
    pool.streams.finish_all();
  }
  // One whose last work is in flight beside the next one, that of stream 1, and the two of memory
  // without a stream.
  CHECK(pool.all.usage_snapshot().states <= 5);
  CHECK(pool.memory.held() <= 10 * MiB);
}

TEST_CASE("pool: what is known of a stream that was forgotten covers nothing of the next one") {
  pool_of pool;
  pool.all.set_reuse({true, false, false});
  pool.give(0, pool.take(0, 2 * MiB), 2 * MiB);
  pool.streams.wait(1, 0);
  pool.all.add_dependency(pool.state(1), pool.state(0));
  pool.streams.finish_all();
  stream_state& before = pool.state(0);
  pool.all.forget(hand_driven_streams::name(0));
  REQUIRE(&pool.state(0) == &before);
  const std::size_t again = pool.take_freed(0, 2 * MiB);
  CHECK(pool.take(1, 2 * MiB) != again);
}

TEST_CASE("pool: a stream does not depend on what the one before it in its state did") {
  pool_of pool{3};
  pool.all.set_reuse({true, false, false});
  const std::size_t used = pool.take_freed(0, 2 * MiB);
  pool.streams.wait(1, 0);
  pool.all.add_dependency(pool.state(1), pool.state(0));
  stream_state& before = pool.state(1);
  pool.all.forget(hand_driven_streams::name(1));
  REQUIRE(&pool.state(2) == &before);
  CHECK(pool.take(2, 2 * MiB) != used);
}

TEST_CASE("pool: memory that a forgotten stream allocated has no user") {
  pool_of pool;
  const std::size_t block = pool.take(0, 2 * MiB);
  const auto user = pool.all.cache_user_of(hand_driven_streams::name(0));
  const auto piece = pool.all.allocate_small_block(user, classes.of(1000));
  REQUIRE(piece);
  for (const std::size_t at : {block, *piece}) {
    const auto found = pool.all.find(at);
    REQUIRE(found);
    CHECK(found->user == user.state);
  }
  pool.streams.finish_all();
  pool.all.forget(hand_driven_streams::name(0));
  CHECK(&pool.state(1) == user.state);
  for (const std::size_t at : {block, *piece}) {
    const auto found = pool.all.find(at);
    REQUIRE(found);
    CHECK(found->user == nullptr);
  }
}

TEST_CASE("pool: a stream whose work has passed needs no fence to be forgotten") {
  pool_of pool;
  pool.take_freed(0, 2 * MiB);
  pool.take(1, 2 * MiB);  // asks how far the other one has come
  pool.take_freed(0, 2 * MiB);
  const auto reached = pool.all.current_epoch(hand_driven_streams::name(0));
  pool.streams.finish_all();
  pool.all.note_passed(reached);
  const std::uint64_t marks = pool.streams.marks;
  pool.streams.set_captured(0, true);
  CHECK_NOTHROW(pool.all.forget(hand_driven_streams::name(0)));
  CHECK(pool.streams.marks == marks);
}

TEST_CASE("pool: a call beside forget() remembers no state that is forgotten") {
  pool_of pool;
  pool.take_freed(0, 2 * MiB);
  const stream_state* beside = nullptr;
  pool.streams.when_marked = [&] { beside = &pool.state(0); };
  pool.all.forget(hand_driven_streams::name(0));
  REQUIRE(beside != nullptr);
  CHECK(&pool.state(0) != beside);
}

TEST_CASE("pool: the state of a forgotten stream is not used again while old addresses name it") {
  pool_of pool{3, true};
  std::array<std::size_t, 8> parts{};
  for (std::size_t& each : parts) each = pool.take(1, 2 * MiB);
  for (std::size_t i = 0; i < parts.size(); i += 2) pool.give(1, parts[i], 2 * MiB);
  pool.take(0, 8 * MiB);
  REQUIRE(pool.memory.mappings() == 12);
  pool.all.forget(hand_driven_streams::name(0));
  pool.all.set_reuse({false, false, false});
  pool.give(2, pool.take(2, 2 * MiB), 2 * MiB);
  // Waits for stream 2, whose fence is later than that of the moves.
  pool.all.drain();
  pool.all.unmap_old_addresses();
  CHECK(pool.all.has_addresses_to_unmap());
  CHECK(pool.memory.mappings() == 13);
}

TEST_CASE("pool: what a thread's default stream gains is in order for all others") {
  pool_of pool{3, true};
  std::array<std::size_t, 8> parts{};
  for (std::size_t& each : parts) each = pool.take(0, 2 * MiB);
  for (std::size_t i = 0; i < parts.size(); i += 2) pool.give(0, parts[i], 2 * MiB);
  std::thread{[&] {
    stream_state& own = pool.all.state_of_thread(hand_driven_streams::name(1));
    pool.streams.wait(1, 0);
    pool.all.add_dependency(own, pool.state(0));
    // Two chunks that stream 0 still uses move, of which a part stays free.
    const auto at = pool.all.allocate(own, {3 * MiB, 256});
    REQUIRE(at);
    pool.memory.use(1, *at, 3 * MiB);
  }}.join();
  pool.take(2, 1 * MiB);
}

TEST_CASE("pool: a stream that may vanish, and whose capture has just begun, is served") {
  pool_of pool;
  pool.streams.all_may_vanish = true;
  pool.take_freed(1, 2 * MiB);
  pool.streams.set_captured(0, true);
  const auto at = pool.all.allocate(pool.state(0), {4 * MiB, 256});
  REQUIRE(at);
  // Asked for the miss and, if that needs it, once more: the request does not ask on and on.
  CHECK(pool.streams.marks <= 2);
}

TEST_CASE(
    "pool: a miss that no followed memory serves records nothing in a stream that may vanish") {
  pool_of pool;
  pool.streams.all_may_vanish = true;
  pool.take(0, 2 * MiB);
  CHECK(pool.streams.marks == 0);
  pool.give(1, pool.take(1, 2 * MiB), 2 * MiB);
  pool.streams.wait(0, 1);
  pool.all.add_dependency(pool.state(0), pool.state(1));
  pool.take(0, 1 * MiB);
  CHECK(pool.served(pool_source::followed_stream) == 1);
  CHECK(pool.streams.marks == 1);
}

TEST_CASE("pool: of a thread's default stream other threads make a fence of all streams") {
  pool_of pool;
  std::size_t freed = 0;
  std::thread{[&] {
    pool.streams.set_thread_of(1, std::this_thread::get_id());
    stream_state& own = pool.all.state_of_thread(hand_driven_streams::name(1));
    freed = *pool.all.allocate(own, {2 * MiB, 256});
    pool.memory.use(1, freed, 2 * MiB);
    REQUIRE(pool.all.deallocate(own, freed, 2 * MiB));
  }}.join();
  pool.take(0, 2 * MiB);
  CHECK(pool.streams.foreign_marks == 0);
  CHECK(pool.streams.marks == 1);
  pool.all.drain();
  CHECK(pool.take(0, 2 * MiB) == freed);
}

}  // namespace hipvmm::mr::pool
