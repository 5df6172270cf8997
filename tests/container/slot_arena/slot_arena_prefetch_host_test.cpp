// SPDX-License-Identifier: MIT
#include <hipvmm/region/region.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/device_use.hpp"
#include "support/held_worker.hpp"
#include "support/host/host_provider.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

using detail::wait_for_background_tasks;

slot_arena_options prefetched(std::size_t blocks = 1,
                              std::size_t budget = slot_arena_options::no_budget) {
  slot_arena_options result = small_slots(4, budget);
  result.prefetch_blocks = blocks;
  return result;
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("slot_arena: growth into a prefetched block makes no HIP call") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched()};
  arena.commit(sizes{0, 1}, sizes{10, 10}, stream);
  wait_for_background_tasks();
  CHECK(arena.statistics().spare_bytes == 2 * row());
  CHECK(arena.statistics().prefetched_blocks == 4);
  const held_worker held;
  const std::uint64_t before = hipvmm_host_call_count(nullptr);
  arena.commit(sizes{1, 0}, sizes{granule() + 1, 2 * granule()}, stream);
  CHECK(hipvmm_host_call_count(nullptr) == before);
  CHECK(arena.length(0) == 2 * granule());
}

TEST_CASE("slot_arena: so many blocks are prefetched, and not past the end") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched(2)};
  arena.commit(sizes{0}, sizes{1}, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == 3 * granule());
  arena.commit(sizes{0}, sizes{3 * granule()}, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == 4 * granule());
  CHECK(arena.statistics().held_bytes == 4 * row());
  arena.commit(sizes{0}, sizes{4 * granule()}, stream);
  wait_for_background_tasks();
  CHECK(arena.statistics().held_bytes == 4 * row());
  // An acquired slot gets its first blocks.
  const std::size_t fresh = arena.acquire(stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(fresh) == 2 * granule());
}

TEST_CASE("slot_arena: the slot that needs a block first gets the only one") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched(1, 4 * row())};
  {
    const held_worker held;
    arena.commit(sizes{0, 1, 2}, sizes{1, granule() - 1, granule() / 2}, stream);
  }
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == granule());
  CHECK(arena.capacity(1) == 2 * granule());
  CHECK(arena.capacity(2) == granule());
  CHECK(arena.statistics().failed_prefetches == 1);
  const held_worker held;
  const call_counter calls{nullptr};
  arena.commit(sizes{1}, sizes{granule() + 1}, stream);
  CHECK(calls.count() == 0);
}

TEST_CASE("slot_arena: a commit takes what is prefetched for others before it fails") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched(1, 4 * row())};
  arena.commit(sizes{0, 1}, sizes{granule(), granule()}, stream);
  wait_for_background_tasks();
  CHECK(arena.statistics().spare_bytes == 2 * row());
  arena.commit(sizes{2}, sizes{2 * granule()}, stream);
  CHECK(arena.statistics().needed_bytes == 4 * row());
  wait_for_background_tasks();
  CHECK(arena.statistics().failed_prefetches > 0);
  CHECK(arena.statistics().held_bytes == 4 * row());
}

TEST_CASE("slot_arena: a prefetch that fails is tried again once memory may be there") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched()};
  {
    const planned_fault fault{"hipMemCreate", 3, 2};
    arena.commit(sizes{0}, sizes{1}, stream);
    wait_for_background_tasks();
  }
  CHECK(arena.capacity(0) == granule());
  CHECK(arena.statistics().failed_prefetches == 1);
  arena.commit(sizes{0}, sizes{2}, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == granule());
  arena.commit(sizes{1}, sizes{2}, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == 2 * granule());
  CHECK(arena.capacity(1) == 2 * granule());
}

TEST_CASE("slot_arena: what a trim released is not prefetched at once") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched()};
  arena.commit(sizes{0}, sizes{1}, stream);
  // The background task still looks for more when the block is there.
  while (arena.capacity(0) == granule()) std::this_thread::yield();
  CHECK(arena.trim() == (addresses_pin() ? 0 : row()));
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == (addresses_pin() ? 2 : 1) * granule());
}

TEST_CASE("slot_arena: a larger budget is prefetched into again") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched(2, 2 * row())};
  arena.commit(sizes{0}, sizes{1}, stream);
  wait_for_background_tasks();
  REQUIRE(arena.capacity(0) == 2 * granule());
  REQUIRE(arena.statistics().failed_prefetches == 1);
  arena.set_budget(slot_arena_options::no_budget);
  arena.commit(sizes{0}, sizes{granule() + 1}, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == 4 * granule());
}

TEST_CASE("slot_arena: nothing is prefetched from slots in use") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched(2, 4 * row())};
  arena.commit(sizes{0}, sizes{1}, stream);
  wait_for_background_tasks();
  REQUIRE(arena.capacity(0) == 3 * granule());
  arena.commit(sizes{1}, sizes{1}, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == 3 * granule());
  CHECK(arena.capacity(1) == granule());
  CHECK(arena.statistics().failed_prefetches == 1);
}

/// Holds the background thread with the first chunk that it has mapped.
class first_prefetch final : public memory_registrar {
 public:
  void add(const mapped_memory&) override {
    if (std::this_thread::get_id() == program_ || is_held_) return;
    is_held_ = true;
    begun_.set_value();
    go_on_.get_future().wait();
  }
  void remove(const mapped_memory&) noexcept override {}
  void await() { begun_.get_future().wait(); }
  void release() { go_on_.set_value(); }

 private:
  std::thread::id program_ = std::this_thread::get_id();
  bool is_held_ = false;  // of the background thread
  std::promise<void> begun_;
  std::promise<void> go_on_;
};

TEST_CASE(
    "slot_arena: a slot released while a block is prefetched for it keeps its blocks in order") {
  const stream stream{first_device};
  const auto registrar = std::make_shared<first_prefetch>();
  slot_arena_options options = prefetched();
  options.registrar = registrar;
  slot_arena arena{first_device, options};
  arena.commit(sizes{0}, sizes{1}, stream);
  registrar->await();  // one plane of the second block is there
  arena.release(0, stream);
  stream.synchronize();
  registrar->release();
  wait_for_background_tasks();
  const std::size_t there = arena.capacity(0);
  REQUIRE(there >= granule());
  arena.commit(sizes{0}, sizes{there}, stream);
  write_end(arena, 0, there, 3, stream);
  CHECK(has_end(arena, 0, there, 3, stream));
  arena.release(0, stream);
  stream.synchronize();
  arena.trim();
  CHECK(arena.statistics().held_bytes == 0);
}

TEST_CASE("slot_arena: a prefetch that is interrupted leaves no block that nobody has") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched(3)};
  {
    const planned_faults slow{"hipMemCreate delay=5ms"};
    arena.commit(sizes{0, 1}, sizes{1, 1}, stream);
    const call_counter begun{"hipMemCreate"};
    // Beside each chunk that is made, so also between the planes of a block.
    for (std::uint64_t i = 1; i <= 6; ++i) {
      REQUIRE(comes_true([&] { return begun.count() >= i; }));
      static_cast<void>(arena.statistics());
    }
  }
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == 4 * granule());
  CHECK(arena.capacity(1) == 4 * granule());
  arena.release(0, stream);
  arena.release(1, stream);
  stream.synchronize();
  arena.trim();
  CHECK(arena.statistics().held_bytes == 0);
}

TEST_CASE("slot_arena: after a trim a release has blocks prefetched again") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched()};
  arena.commit(sizes{0, 1}, sizes{1, 1}, stream);
  // While the background task still looks for commits.
  static_cast<void>(arena.trim());
  // Blocks made by then are not unmapped if that returned nothing.
  if (!capability_of(first_device).needs(quirk::re_reserve)) CHECK(arena.capacity(0) == granule());
  arena.release(1, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(0) == 2 * granule());
}

TEST_CASE("slot_arena: what released slots left is prefetched for others") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched(1, 3 * row())};
  arena.commit(sizes{0, 1}, sizes{granule(), 1}, stream);
  wait_for_background_tasks();
  arena.release(0, stream);
  stream.synchronize();
  const call_counter creations{"hipMemCreate"};
  arena.commit(sizes{1}, sizes{granule() + 1}, stream);
  wait_for_background_tasks();
  CHECK(arena.capacity(1) == 3 * granule());
  CHECK(creations.count() <= 2);
  CHECK(arena.statistics().held_bytes == 3 * row());
}

TEST_CASE_FIXTURE(four_slots,
                  "slot_arena: chunks go from slot to slot without being created or released") {
  arena.commit(sizes{0}, sizes{4 * granule()}, stream);
  const call_counter creations{"hipMemCreate"};
  const call_counter releases{"hipMemRelease"};
  for (std::size_t i = 0; i < 6; ++i) {
    arena.release(i % 4, stream);
    stream.synchronize();
    arena.commit(sizes{(i + 1) % 4}, sizes{4 * granule()}, stream);
  }
  CHECK(creations.count() == 0);
  CHECK(releases.count() == 0);
  CHECK(arena.statistics().moved_blocks == 6 * 8);
}

TEST_CASE("slot_arena: a cache of the program serves several arenas") {
  chunk_cache cache{GiB};
  const stream stream{first_device};
  slot_arena_options options = small_slots();
  options.cache = &cache;
  slot_arena first{first_device, options};
  first.commit(sizes{0}, sizes{granule()}, stream);
  first.release(0, stream);
  stream.synchronize();
  CHECK(first.trim() == row());
  CHECK(cache.statistics().bytes == row());
  slot_arena second{first_device, options};
  const call_counter creations{"hipMemCreate"};
  second.commit(sizes{0}, sizes{granule()}, stream);
  CHECK(creations.count() == 0);
}

TEST_CASE("slot_arena: a full device evicts as a full budget does") {
  const stream stream{first_device};
  slot_arena_options options = small_slots();
  slot_arena* self = nullptr;
  options.evict = [&](std::size_t) { self->release(0, stream); };
  slot_arena arena{first_device, options};
  self = &arena;
  arena.commit(sizes{0}, sizes{2 * granule()}, stream);
  chunk_cache::shared().trim();
  drain_retired_memory();
  const physical_chunk rest{first_device, free_memory_at_rest(first_device) - row()};
  CHECK(arena.slots_that_fit(granule()) == 1);
  arena.commit(sizes{1}, sizes{2 * granule()}, stream);
  CHECK_FALSE(arena.in_use(0));
  CHECK(arena.statistics().evictions == 1);
  CHECK_THROWS_AS(arena.commit(sizes{1, 2}, sizes{4 * granule(), 1}, stream), std::exception);
}

TEST_CASE("slot_arena: a prefetch does not wait for work that uses retired memory") {
  const stream stream{first_device};
  slot_arena arena{first_device, prefetched()};
  const slot_arena other{first_device, small_slots()};
  arena.commit(sizes{0}, sizes{1}, stream);
  wait_for_background_tasks();
  release_idle_memory();
  const std::size_t left = align_down(free_memory_at_rest(first_device), granule());
  region full{first_device, left};
  full.commit(0, left);
  blocked_stream work{first_device};
  full.retire();
  REQUIRE(retired_memory().waiting == 1);
  arena.commit(sizes{0}, sizes{2 * granule()}, stream);  // the next block is to be prefetched
  watched_thread caller{[&] { CHECK(arena.acquire(stream) != 0); }};
  CHECK(comes_true([&] { return caller.is_over(); }));
  work.release();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
