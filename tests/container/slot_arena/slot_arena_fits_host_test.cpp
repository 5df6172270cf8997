// SPDX-License-Identifier: MIT
// slots_that_fit() is zero exactly if acquire() and commit() would fail.
#include <hipvmm/region/retained_chunk.hpp>
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/device_use.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Acquires and commits slots until none fits. Returns how many did.
std::size_t fill_slots(slot_arena& arena, std::size_t length, stream_ref stream) {
  std::size_t filled = 0;
  for (; arena.slots_that_fit(length) != 0; ++filled) {
    const std::size_t slot = arena.acquire(stream);
    CAPTURE(slot);
    REQUIRE_NOTHROW(arena.commit(sizes{slot}, sizes{length}, stream));
  }
  return filled;
}

TEST_CASE("slot_arena: acquire takes the packed slot whose block is there") {
  const stream stream{first_device};
  slot_arena_options options = small_slots(6);
  options.layout = slot_layout::packed;
  options.bytes_per_slot = granule() / 16 * 5;  // slot 3 is in two blocks
  options.budget_bytes = row();
  slot_arena arena{first_device, options};
  arena.commit(sizes{5}, sizes{options.bytes_per_slot}, stream);
  CHECK(arena.slots_that_fit(options.bytes_per_slot) == 1);
  CHECK(fill_slots(arena, options.bytes_per_slot, stream) == 1);
  CHECK(arena.in_use(4));
  // Nothing but a slot in two blocks is left that has a part of one.
  arena.commit(sizes{4, 5}, sizes(2, options.bytes_per_slot), stream);
  arena.set_budget(2 * row());
  CHECK(fill_slots(arena, options.bytes_per_slot, stream) == 4);
}

TEST_CASE("slot_arena: memory in a cache of the program is used beyond a smaller budget") {
  const stream stream{first_device};
  chunk_cache cache{std::numeric_limits<std::size_t>::max()};
  slot_arena_options options = small_slots();
  options.cache = &cache;
  slot_arena arena{first_device, options};
  const auto shrink_while_used = [&] {
    arena.commit(sizes{0, 1}, sizes{granule(), 3 * granule()}, stream);
    held_streams held;
    fill_async(stream, arena.pointer(1), 1, 1);
    arena.release(1, stream);
    arena.set_budget(row());
    held.release();
    stream.synchronize();
  };
  shrink_while_used();
  CHECK(arena.statistics().held_bytes == 4 * row());
  SUBCASE("by a commit") {
    CHECK(arena.slots_that_fit(granule()) == 3);
    CHECK_NOTHROW(arena.commit(sizes{0, 2, 3}, sizes{2 * granule(), 1, 1}, stream));
    CHECK(arena.statistics().held_bytes == 4 * row());
    CHECK(fill_slots(arena, 1, stream) == 0);
  }
  SUBCASE("by a copy for writing") {
    if (capability_of(first_device).needs(quirk::no_aliases)) return;
    arena.share_prefix(0, sizes{2}, granule(), stream);
    CHECK_NOTHROW(arena.make_writable(2, 0, granule(), stream));
    CHECK(arena.statistics().needed_bytes == 2 * row());
  }
}

TEST_CASE("slot_arena: what a cache of the program keeps counts on a full device") {
  const stream stream{first_device};
  chunk_cache cache{std::numeric_limits<std::size_t>::max()};
  slot_arena_options options = small_slots();
  options.cache = &cache;
  slot_arena arena{first_device, options};
  arena.commit(sizes{0, 1}, sizes{granule(), 2 * granule()}, stream);
  arena.release(1, stream);
  stream.synchronize();
  arena.trim();
  chunk_cache::shared().trim();
  const physical_chunk rest{first_device, free_memory_at_rest(first_device) - granule()};
  const std::size_t fitting = arena.slots_that_fit(granule());
  CHECK(fitting == 2);
  CHECK(fill_slots(arena, granule(), stream) == fitting);
  CHECK_THROWS_AS(arena.commit(sizes{3}, sizes{1}, stream), out_of_memory);
}

TEST_CASE(
    "slot_arena: a retained chunk that addresses pin serves no slot, and the budget counts it") {
  if (!capability_of(first_device).has(trait::retains_chunks)) return;
  const stream stream{first_device};
  slot_arena_options options = small_slots();
  options.planes = 1;
  options.budget_bytes = 2 * granule();
  slot_arena arena{first_device, options};
  arena.commit(sizes{0, 1}, sizes{1, 1}, stream);
  const retained_chunk held = retain_chunk(arena.pointer(1));
  arena.release(1, stream);
  stream.synchronize();
  arena.trim();
  const bool is_pinned = arena.statistics().held_bytes == 2 * granule();
  CHECK(is_pinned == addresses_pin());
  try {
    arena.commit(sizes{2}, sizes{1}, stream);
    CHECK_FALSE(is_pinned);
  } catch (const out_of_memory&) {
    CHECK(is_pinned);
  }
  CHECK(arena.statistics().held_bytes == 2 * granule());
  CHECK(arena.slots_that_fit(1) == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
