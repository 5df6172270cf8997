// SPDX-License-Identifier: MIT
#include <hipvmm/container/slot_arena.hpp>

#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("slot_arena: a batch is committed as a whole") {
  const stream stream{first_device};
  slot_arena arena{first_device, small_slots(4, 5 * row())};
  arena.commit(sizes{0, 1}, sizes{granule(), 2 * granule()}, stream);
  const slot_arena_statistics before = arena.statistics();
  CHECK_THROWS_AS(arena.commit(sizes{2, 0, 3}, sizes{granule(), 2 * granule(), 1}, stream),
                  out_of_memory);
  CHECK(arena.length(0) == granule());
  CHECK_FALSE(arena.in_use(2));
  CHECK_FALSE(arena.in_use(3));
  const slot_arena_statistics after = arena.statistics();
  CHECK(after.held_bytes == before.held_bytes);
  CHECK(after.spare_bytes == 0);
  CHECK(after.kept_bytes == 0);
  CHECK_NOTHROW(arena.commit(sizes{2, 0}, sizes{granule(), 2 * granule()}, stream));
}

TEST_CASE_FIXTURE(four_slots, "slot_arena: a released slot is acquired with its blocks") {
  arena.commit(sizes{0, 1, 2}, sizes{1, 3 * granule(), 1}, stream);
  arena.release(1, stream);
  arena.release(2, stream);
  stream.synchronize();
  CHECK(arena.acquire(stream) == 1);
  CHECK(arena.length(1) == 0);
  CHECK(arena.capacity(1) == 3 * granule());
  arena.commit(sizes{1}, sizes{3 * granule()}, stream);
  CHECK(arena.statistics().held_bytes == 5 * row());
  CHECK(arena.acquire(stream) == 2);
  CHECK(arena.acquire(stream) == 3);
  CHECK_THROWS_WITH_AS(static_cast<void>(arena.acquire(stream)),
                       doctest::Contains("all 4 slots are in use"), out_of_memory);
}

TEST_CASE_FIXTURE(four_slots, "slot_arena: what a slot left serves others before new memory does") {
  arena.commit(sizes{0, 1}, sizes{4 * granule(), 3 * granule()}, stream);
  write_end(arena, 1, 100, 4, stream);
  arena.release(0, stream);
  stream.synchronize();
  arena.commit(sizes{2}, sizes{3 * granule()}, stream);
  CHECK(arena.statistics().held_bytes == 7 * row());
  CHECK(arena.statistics().moved_blocks == 6);
  CHECK(arena.capacity(0) == granule());
  write_end(arena, 2, 100, 5, stream);
  CHECK(has_end(arena, 1, 100, 4, stream));
  CHECK(has_end(arena, 2, 100, 5, stream));

  arena.truncate(1, granule(), stream);
  stream.synchronize();
  arena.commit(sizes{3}, sizes{3 * granule()}, stream);
  CHECK(arena.statistics().held_bytes == 7 * row());
  CHECK(arena.length(1) == granule());
  CHECK(arena.capacity(1) == granule());
}

TEST_CASE("slot_arena: the eviction callback makes room once") {
  const stream stream{first_device};
  slot_arena_options options = small_slots(4, 4 * row());
  slot_arena* self = nullptr;
  std::size_t missing = 0;
  options.evict = [&](std::size_t bytes) {
    missing = bytes;
    if (self->in_use(0)) self->release(0, stream);
  };
  slot_arena arena{first_device, options};
  self = &arena;
  arena.commit(sizes{0, 1}, sizes{2 * granule(), granule()}, stream);
  arena.commit(sizes{2, 1}, sizes{granule() + 1, granule() + 1}, stream);
  CHECK(missing == 3 * row());
  CHECK_FALSE(arena.in_use(0));
  CHECK(arena.length(2) == granule() + 1);
  CHECK(arena.statistics().evictions == 1);
  CHECK_THROWS_AS(arena.commit(sizes{3}, sizes{1}, stream), out_of_memory);
  CHECK(arena.statistics().evictions == 2);
  CHECK_FALSE(arena.in_use(3));
}

TEST_CASE("slot_arena: a failed commit says what is held and what to do") {
  const stream stream{first_device};
  slot_arena arena{first_device, small_slots(4, 2 * row())};
  arena.commit(sizes{0}, sizes{granule()}, stream);
  const auto error = thrown_by<out_of_memory>([&] {
    arena.commit(sizes{1, 2}, sizes{granule(), 1}, stream);
  });
  CHECK(error.resource() == exhausted::limit);
  CHECK(error.device() == 0);
  const std::string text = error.what();
  INFO(text);
  CHECK(text.find("a batch of 2 slots") != std::string::npos);
  CHECK(text.find("budget_bytes, which is " + format_bytes(2 * row())) != std::string::npos);
  CHECK(text.find("the budget is") == std::string::npos);
  CHECK(text.find("release or truncate slots") != std::string::npos);
}

TEST_CASE_FIXTURE(four_slots, "slot_arena: a smaller budget releases what no length needs") {
  arena.commit(sizes{0, 1}, sizes{4 * granule(), granule()}, stream);
  arena.release(0, stream);
  stream.synchronize();
  CHECK(arena.statistics().spare_bytes == 4 * row());
  arena.set_budget(3 * row());
  CHECK(held_unpinned(arena.statistics()) == (addresses_pin() ? 1 : 3) * row());
  CHECK(arena.trim() == (addresses_pin() ? 0 : 2 * row()));
  CHECK(held_unpinned(arena.statistics()) == row());
  CHECK(arena.statistics().peak_held_bytes == 5 * row());
  arena.set_budget(0);
  CHECK(arena.length(1) == granule());
  // Memory held beyond the budget is in use.
  if (!addresses_pin())
    CHECK_THROWS_AS(arena.commit(sizes{1}, sizes{granule() + 1}, stream), out_of_memory);
  arena.set_budget(2 * row());
  CHECK_NOTHROW(arena.commit(sizes{1}, sizes{granule() + 1}, stream));
}

TEST_CASE("slot_arena: slots_that_fit is what can be committed") {
  const stream stream{first_device};
  slot_arena arena{first_device, small_slots(6, 7 * row())};
  CHECK(arena.slots_that_fit(0) == 6);
  CHECK(arena.slots_that_fit(1) == 6);
  CHECK(arena.slots_that_fit(granule() + 1) == 3);
  arena.commit(sizes{0, 1}, sizes{3 * granule(), granule()}, stream);
  CHECK(arena.slots_that_fit(1) == 3);
  CHECK(arena.slots_that_fit(4 * granule()) == 0);
  arena.release(0, stream);
  CHECK(arena.slots_that_fit(3 * granule()) == 2);
  arena.commit(sizes{0, 2}, sizes{3 * granule(), 3 * granule()}, stream);
  CHECK(arena.slots_that_fit(1) == 0);
  CHECK_THROWS_AS(static_cast<void>(arena.slots_that_fit(5 * granule())), std::out_of_range);
}

TEST_CASE("slot_arena: as many packed slots fit as a block has") {
  slot_arena_options options = small_slots(4);
  options.layout = slot_layout::packed;
  options.bytes_per_slot = granule() / 4;
  options.budget_bytes = row();
  slot_arena arena{first_device, options};
  CHECK(arena.slots_that_fit(options.bytes_per_slot) == 4);
}

TEST_CASE("slot_arena: packed slots share blocks with their neighbours") {
  const stream stream{first_device};
  slot_arena_options options = small_slots(16);
  options.layout = slot_layout::packed;
  options.bytes_per_slot = granule() / 4 - 300;
  slot_arena arena{first_device, options};
  const std::size_t stride = arena.slot_stride();
  CHECK(stride % 256 == 0);
  CHECK(stride < granule() / 4);
  sizes all(16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  arena.commit(all, sizes(16, 500), stream);
  CHECK(arena.statistics().needed_bytes == 2 * align_up(15 * stride + 500, granule()));
  CHECK(arena.statistics().used_bytes == 16 * 2 * 500);
  for (const std::size_t slot : all)
    write_end(arena, slot, 500, static_cast<std::uint32_t>(slot), stream);
  // A block stays as long as one of its slots needs it.
  for (const std::size_t slot : all)
    if (slot != 6) arena.release(slot, stream);
  stream.synchronize();
  arena.trim();
  CHECK(held_unpinned(arena.statistics()) == arena.statistics().needed_bytes);
  CHECK(arena.statistics().needed_bytes <= 2 * row());
  CHECK(has_end(arena, 6, 500, 6, stream));
  CHECK(arena.slots_that_fit(10) == 15);
}

TEST_CASE("slot_arena: bad arguments are named") {
  const stream stream{first_device};
  const auto refused = [](auto change, const char* text) {
    slot_arena_options options = small_slots();
    change(options);
    CHECK_THROWS_WITH_AS((slot_arena{first_device, options}), doctest::Contains(text),
                         std::invalid_argument);
  };
  refused([](slot_arena_options& o) { o.slots = 0; }, "slot_arena_options::slots: 0");
  refused([](slot_arena_options& o) { o.planes = 0; }, "slot_arena_options::planes: 0");
  refused([](slot_arena_options& o) { o.bytes_per_slot = 0; }, "bytes_per_slot: 0");
  refused([](slot_arena_options& o) { o.block_bytes = granule() + 1; }, "no multiple of");

  slot_arena arena{first_device, small_slots()};
  CHECK_THROWS_WITH_AS(arena.commit(sizes{0, 4}, sizes{1, 1}, stream),
                       "slot_arena::commit: slot 4 of 4", std::out_of_range);
  CHECK_FALSE(arena.in_use(0));
  const std::string most = std::to_string(arena.bytes_per_slot());
  CHECK_THROWS_WITH_AS(arena.commit(sizes{0}, sizes{4 * granule() + 1}, stream),
                       doctest::Contains(("bytes, and bytes_per_slot is " + most).c_str()),
                       std::out_of_range);
  CHECK_THROWS_AS(arena.commit(sizes{0}, sizes{1, 2}, stream), std::invalid_argument);
  const std::size_t one = 1;
  CHECK_THROWS_WITH_AS(arena.commit(&one, nullptr, 1, stream), doctest::Contains("nullptr"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(arena.share_prefix(0, nullptr, 1, 0, stream), doctest::Contains("nullptr"),
                       std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(arena.pointer(0, 2)), std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(arena.length(4)), std::out_of_range);
  CHECK_THROWS_WITH_AS(arena.release(1, stream), doctest::Contains("slot 1 is free"),
                       std::invalid_argument);
  arena.commit(sizes{1}, sizes{5}, stream);
  CHECK_THROWS_AS(arena.truncate(1, 6, stream), std::invalid_argument);
  arena.release(1, stream);
  CHECK_THROWS_AS(arena.release(1, stream), std::invalid_argument);
}

TEST_CASE("slot_arena: addresses that HIP has not are refused at once") {
  slot_arena_options options = small_slots();
  options.slots = std::size_t{1} << 24U;
  options.bytes_per_slot = std::size_t{1} << 40U;
  CHECK_THROWS((slot_arena{first_device, options}));
}

TEST_CASE("slot_arena: a move takes everything along") {
  const stream stream{first_device};
  slot_arena first{first_device, small_slots()};
  first.commit(sizes{1}, sizes{300}, stream);
  write_end(first, 1, 300, 9, stream);
  void* const at = first.pointer(1);
  slot_arena second{std::move(first)};
  CHECK(second.pointer(1) == at);
  CHECK(has_end(second, 1, 300, 9, stream));
  CHECK_THROWS_AS(first.commit(sizes{1}, sizes{1}, stream), std::invalid_argument);
  second = slot_arena{first_device, small_slots(2)};
  CHECK(second.slots() == 2);
}

TEST_CASE("slot_arena: devices that are named have their rights") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  slot_arena_options options = small_slots();
  options.access = {{peer, access_right::read_write}};
  slot_arena arena{first_device, options};
  const stream there{peer};
  arena.commit(sizes{0}, sizes{100}, there);
  write_end(arena, 0, 100, 3, there);
  CHECK(has_end(arena, 0, 100, 3, there));
  arena.release(0, there);
}

TEST_SUITE_END();

TEST_CASE("slot_arena: a device without virtual memory is refused" * needs_fallback) {
  CHECK_THROWS_WITH_AS((slot_arena{first_device, small_slots()}),
                       doctest::Contains("no virtual memory management"), unsupported);
}

}  // namespace
}  // namespace hipvmm::test
