// SPDX-License-Identifier: MIT
// The counts in the statistics of an arena, and how long its destruction takes.
#include <unistd.h>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/device_use.hpp"
#include "support/held_worker.hpp"
#include "support/host/host_provider.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("slot_arena: destruction waits for no more than a block of what is prefetched") {
  const stream stream{first_device};
  slot_arena_options options = small_slots(8);
  options.prefetch_blocks = 3;
  std::optional<slot_arena> arena{std::in_place, first_device, options};
  arena->commit(sizes{0, 1, 2, 3, 4, 5, 6, 7}, sizes(8, 1), stream);
  detail::wait_for_background_tasks();
  CHECK(arena->statistics().prefetched_blocks == 8 * 3 * 2);
  arena.emplace(first_device, options);
  held_worker held;
  arena->commit(sizes{0, 1, 2, 3, 4, 5, 6, 7}, sizes(8, 1), stream);
  const call_counter mapped{"hipMemMap"};
  const planned_faults slow{"hipMemCreate delay=10ms"};
  held.release();
  while (mapped.count() == 0) std::this_thread::yield();
  arena.reset();
  CHECK(mapped.count() < 8 * 3 * 2);
}

HIPVMM_TEST_CASE_IN(
    "slot_arena: the end of a process waits for no more than a block of what is prefetched", {}) {
  static std::uint64_t before = 0;
  // Registered first, and so called when the thread of the library has ended.
  std::atexit([] {
    if (hipvmm_host_call_count("hipMemMap") - before >= 8 * 3 * 2) ::_exit(3);
  });
  const stream stream{first_device};
  slot_arena_options options = small_slots(8);
  options.prefetch_blocks = 3;
  static auto& arena = *new slot_arena{first_device, options};  // lives until the process ends
  arena.commit(sizes{0, 1, 2, 3, 4, 5, 6, 7}, sizes(8, 1), stream);
  detail::wait_for_background_tasks();
  for (std::size_t slot = 0; slot < 8; ++slot) arena.release(slot, stream);
  stream.synchronize();
  arena.trim();
  held_worker held;
  arena.commit(sizes{0, 1, 2, 3, 4, 5, 6, 7}, sizes(8, 1), stream);
  before = hipvmm_host_call_count("hipMemMap");
  static_cast<void>(hipvmm_host_set_faults("hipMemCreate delay=10ms"));
  held.release();
  while (hipvmm_host_call_count("hipMemMap") == before) std::this_thread::yield();
}

TEST_CASE_FIXTURE(four_slots, "slot_arena: blocks that go back to the device were not moved") {
  arena.commit(sizes{0, 1}, sizes{granule(), granule()}, stream);
  arena.release(0, stream);
  stream.synchronize();
  // Memory that stays with the addresses returns when nothing is mapped in them.
  CHECK(arena.trim() == (addresses_pin() ? 0 : row()));
  CHECK(arena.statistics().held_bytes == (addresses_pin() ? 2 : 1) * row());
  arena.release(1, stream);
  stream.synchronize();
  arena.set_budget(0);
  CHECK(arena.statistics().held_bytes == 0);
  CHECK(arena.statistics().moved_blocks == 0);
}

TEST_CASE("slot_arena: a block that neighbours have already is not prefetched for another") {
  const stream stream{first_device};
  slot_arena_options options = small_slots();
  options.layout = slot_layout::packed;
  options.bytes_per_slot = granule() + granule() / 2;
  options.prefetch_blocks = 1;
  slot_arena arena{first_device, options};
  arena.commit(sizes{0, 1}, sizes{1, 1}, stream);
  detail::wait_for_background_tasks();
  CHECK(arena.capacity(0) == options.bytes_per_slot);
  CHECK(arena.statistics().grown_blocks == 4);
  CHECK(arena.statistics().prefetched_blocks == 2);
}

TEST_CASE("slot_arena: an eviction is told what is missing, however slots are named") {
  const stream stream{first_device};
  slot_arena_options options = small_slots(4, row());
  std::size_t missing = 0;
  options.evict = [&](std::size_t bytes) { missing = bytes; };
  slot_arena arena{first_device, options};
  arena.commit(sizes{0}, sizes{1}, stream);
  CHECK_THROWS_AS(arena.commit(sizes{1, 0, 1}, sizes{1, 1, 2 * granule()}, stream), out_of_memory);
  CHECK(missing == 2 * row());
}

HIPVMM_TEST_CASE_IN("slot_arena: a batch larger than the device takes no idle memory of others",
                    {"HIPVMM_HOST_MEMORY=64MiB"}) {
  const stream stream{first_device};
  mr::vmm_pool_resource idle{first_device};
  idle.deallocate(stream, idle.allocate(stream, 8 * MiB), 8 * MiB);
  stream.synchronize();
  slot_arena_options options = small_slots(2);
  options.bytes_per_slot = 24 * MiB;
  std::size_t evictions = 0;
  options.evict = [&](std::size_t) { ++evictions; };
  slot_arena arena{first_device, options};
  CHECK_THROWS_WITH_AS(arena.commit(sizes{0, 1}, sizes(2, 24 * MiB), stream),
                       doctest::Contains("the request is larger than the device's memory"),
                       out_of_memory);
  CHECK(idle.statistics().reserved_current == 8 * MiB);
  CHECK(evictions == 0);
}

TEST_CASE("slot_arena: a batch that no budget has room for moves nothing") {
  const stream stream{first_device};
  slot_arena arena{first_device, small_slots(6, 5 * row())};
  arena.commit(sizes{0, 1, 2}, sizes{granule(), granule(), 2 * granule()}, stream);
  arena.release(2, stream);
  stream.synchronize();
  const call_counter mapped{"hipMemMap"};
  const call_counter unmapped{"hipMemUnmap"};
  const call_counter created{"hipMemCreate"};
  const auto grows = [&] {
    arena.commit(sizes{0, 1, 3, 4}, sizes{2 * granule(), 2 * granule(), 1, 1}, stream);
  };
  CHECK_THROWS_WITH_AS(grows(), doctest::Contains("a batch of 4 slots"), out_of_memory);
  CHECK(mapped.count() + unmapped.count() + created.count() == 0);
  CHECK(arena.capacity(2) == 2 * granule());
  arena.set_budget(6 * row());
  grows();
  CHECK(arena.statistics().needed_bytes == 6 * row());
}

TEST_CASE_FIXTURE(four_slots, "slot_arena: what is held beyond a smaller budget is used") {
  arena.commit(sizes{0, 1}, sizes{granule(), 3 * granule()}, stream);
  {
    held_streams held;
    fill_async(stream, arena.pointer(1), 1, 1);
    arena.truncate(1, granule(), stream);
    arena.set_budget(row());
    arena.commit(sizes{1}, sizes{2 * granule()}, stream);
    held.release();
  }
  stream.synchronize();
  CHECK(arena.statistics().held_bytes == 4 * row());
  arena.commit(sizes{0}, sizes{2 * granule()}, stream);
  CHECK(arena.statistics().held_bytes == 4 * row());
  CHECK_THROWS_AS(arena.commit(sizes{0}, sizes{3 * granule()}, stream), out_of_memory);
}

TEST_CASE("slot_arena: a batch that fails gives no memory away that was there before") {
  const stream stream{first_device};
  slot_arena arena{first_device, small_slots(6)};
  arena.commit(sizes{0, 1}, sizes{granule(), 3 * granule()}, stream);
  arena.release(1, stream);
  stream.synchronize();
  const auto grows = [&] { arena.commit(sizes{0, 2, 3}, sizes(3, 2 * granule()), stream); };
  chunk_cache::shared().trim();
  drain_retired_memory();
  const std::size_t outside = detail::created_chunk_bytes(first_device) - 4 * row();
  {
    // Three rows come from slot 1, and three chunks are new; four rows and a half of five.
    const physical_chunk rest{first_device, free_memory_at_rest(first_device) - row() - granule()};
    CHECK_THROWS_AS(grows(), out_of_memory);
  }
  CHECK(arena.length(0) == granule());
  CHECK_FALSE(arena.in_use(2));
  const slot_arena_statistics after = arena.statistics();
  CHECK(after.needed_bytes == row());
  // New chunks whose memory stays with the addresses are held, and used next.
  const std::size_t added = after.held_bytes - 4 * row();
  if (!addresses_pin()) CHECK(added == 0);
  CHECK(after.kept_bytes + after.spare_bytes == 3 * row() + added);
  CHECK(after.held_bytes == detail::created_chunk_bytes(first_device) - outside);
  const call_counter created{"hipMemCreate"};
  grows();
  CHECK(created.count() + added / granule() == 2 * arena.planes());
}

TEST_CASE("slot_arena: sizes that overflow are refused") {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const slot_layout layout : {slot_layout::separate, slot_layout::packed}) {
    slot_arena_options options = small_slots();
    options.layout = layout;
    for (const std::size_t huge : {most, most - granule() + 1, most / 2, most / 4 + 1}) {
      CAPTURE(huge);
      options.bytes_per_slot = huge;
      CHECK_THROWS_AS(slot_arena(first_device, options), std::exception);
      if (huge == most)
        CHECK_THROWS_WITH_AS(slot_arena(first_device, options),
                             doctest::Contains(("bytes_per_slot " + std::to_string(most)).c_str()),
                             std::length_error);
      options.bytes_per_slot = granule();
      options.slots = huge;
      CHECK_THROWS_AS(slot_arena(first_device, options), std::exception);
      options.slots = 1;
      options.planes = huge;
      CHECK_THROWS_AS(slot_arena(first_device, options), std::exception);
      options.planes = 1;
      options.block_bytes = huge - huge % granule();
      CHECK_THROWS_AS(slot_arena(first_device, options), std::exception);
      options = small_slots();
      options.layout = layout;
    }
    options.planes = std::size_t{1} << 33U;
    CHECK_THROWS_WITH_AS(slot_arena(first_device, options),
                         doctest::Contains("8589934592 planes: set less than"), std::length_error);
    options = small_slots();
    options.layout = layout;
    options.prefetch_blocks = most;
    const stream stream{first_device};
    slot_arena arena{first_device, options};
    CHECK_THROWS_AS(arena.commit(sizes{0}, sizes{most}, stream), std::out_of_range);
    arena.commit(sizes{0, 0}, sizes{2 * granule(), 1}, stream);
    CHECK(arena.length(0) == 2 * granule());
    detail::wait_for_background_tasks();
    CHECK(arena.statistics().held_bytes == 4 * row());
    CHECK_THROWS_AS(arena.make_writable(0, 1, most, stream), std::out_of_range);
    CHECK_THROWS_AS(static_cast<void>(arena.slots_that_fit(most)), std::out_of_range);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
