// SPDX-License-Identifier: MIT
// Calls that an eviction callback may make, and calls that are refused to it.
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"

namespace hipvmm::test {
namespace {

/// An arena of four rows, all of which slots 0 and 1 have. A commit that is_too_much() calls the
/// callback of a test.
struct full_arena {
  std::function<void(std::size_t)> evict;
  hipvmm::stream stream{first_device};
  slot_arena arena;

  explicit full_arena(std::optional<memory_tag> tag = {})
      : arena{first_device, [&] {
                slot_arena_options options = small_slots(4, 4 * row());
                options.evict = [this](std::size_t bytes) { evict(bytes); };
                options.tag = std::move(tag);
                return options;
              }()} {
    arena.commit(sizes{0, 1}, sizes{2 * granule(), 2 * granule()}, stream);
    write_end(arena, 0, 100, 1, stream);
  }
  void is_too_much() { arena.commit(sizes{2, 0}, sizes{1, 3 * granule()}, stream); }
  void check_unchanged() const {
    CHECK(arena.length(0) == 2 * granule());
    CHECK(arena.length(1) == 2 * granule());
    CHECK_FALSE(arena.in_use(2));
    CHECK(has_end(arena, 0, 100, 1, stream));
    CHECK(arena.statistics().needed_bytes == 4 * row());
  }
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(
    full_arena, "slot_arena: an eviction of a slot of the batch is refused, and nothing is lost") {
  const std::function<void()> releases = [&] { arena.release(0, stream); };
  const std::function<void()> truncates = [&] { arena.truncate(0, 1, stream); };
  for (const auto& each : {releases, truncates}) {
    evict = [&](std::size_t) { each(); };
    CHECK_THROWS_WITH_AS(is_too_much(), doctest::Contains("slot 0 is of the batch"),
                         std::invalid_argument);
    check_unchanged();
  }
  // One that the callback keeps to itself, too.
  evict = [&](std::size_t) { CHECK_THROWS_AS(arena.release(0, stream), std::invalid_argument); };
  CHECK_THROWS_AS(is_too_much(), out_of_memory);
  check_unchanged();
  evict = [&](std::size_t) { arena.release(1, stream); };
  is_too_much();
  CHECK(arena.length(0) == 3 * granule());
  CHECK(arena.length(2) == 1);
  arena.release(0, stream);
}

TEST_CASE_FIXTURE(full_arena, "slot_arena: slots get no memory in an eviction callback") {
  const std::function<void()> acquires = [&] { static_cast<void>(arena.acquire(stream)); };
  const std::function<void()> commits = [&] { arena.commit(sizes{3}, sizes{1}, stream); };
  const std::function<void()> shares = [&] { arena.share_prefix(0, sizes{3}, granule(), stream); };
  const std::function<void()> writes = [&] { arena.make_writable(0, 0, 1, stream); };
  const std::function<void()> replaces = [&] { arena.set_eviction(nullptr); };
  for (const auto& each : {acquires, commits, shares, writes, replaces}) {
    evict = [&](std::size_t) { each(); };
    CHECK_THROWS_WITH_AS(is_too_much(), doctest::Contains("eviction callback"), std::logic_error);
    check_unchanged();
    CHECK_FALSE(arena.in_use(3));
  }
  arena.release(1, stream);
  is_too_much();
  CHECK(arena.acquire(stream) < 4);
}

TEST_CASE_FIXTURE(full_arena, "slot_arena: an eviction callback may be changed later") {
  arena.set_eviction(nullptr);
  CHECK_THROWS_AS(is_too_much(), out_of_memory);
  CHECK(arena.statistics().evictions == 0);
  arena.set_eviction([&](std::size_t) { arena.release(1, stream); });
  is_too_much();
  CHECK(arena.statistics().evictions == 1);
}

TEST_CASE_FIXTURE(full_arena, "slot_arena: what an eviction callback throws comes out of commit") {
  evict = [](std::size_t) { throw std::runtime_error{"no sequence can go"}; };
  CHECK_THROWS_WITH_AS(is_too_much(), "no sequence can go", std::runtime_error);
  check_unchanged();
  evict = [&](std::size_t) {
    arena.release(1, stream);
    throw std::runtime_error{"after one has gone"};
  };
  CHECK_THROWS_AS(is_too_much(), std::runtime_error);
  CHECK_FALSE(arena.in_use(1));
  is_too_much();
  CHECK(arena.length(0) == 3 * granule());
}

TEST_CASE_FIXTURE(full_arena, "slot_arena: an eviction callback may make room for a larger batch") {
  evict = [&](std::size_t) { arena.set_budget(slot_arena_options::no_budget); };
  arena.commit(sizes{2, 0}, sizes{2 * granule(), 3 * granule()}, stream);
  CHECK(arena.statistics().evictions == 1);
}

TEST_CASE("slot_arena: an eviction callback may ask, trim and change the budget") {
  full_arena full;
  full.evict = [&](std::size_t missing) {
    CHECK(missing == 2 * row());
    CHECK(full.arena.slots_that_fit(1) == 0);
    CHECK(full.arena.statistics().evictions == 1);
    CHECK(full.arena.trim() == 0);
    full.arena.set_budget(6 * row());
  };
  full.is_too_much();
  CHECK(full.arena.statistics().held_bytes == 6 * row());
}

TEST_CASE("slot_arena: a commit whose eviction callback suspends the arena fails") {
  const memory_tag tag{"evicted"};
  full_arena full{tag};
  full.evict = [&](std::size_t) { CHECK(suspend(tag, keep::contents) == 4 * row()); };
  CHECK_THROWS_AS(full.is_too_much(), std::logic_error);
  CHECK(resume(tag) == 4 * row());
  full.check_unchanged();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
