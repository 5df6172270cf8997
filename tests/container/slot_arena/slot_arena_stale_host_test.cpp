// SPDX-License-Identifier: MIT
// Blocks that a slot shared, and does not need any more.
#include <hipvmm/vmm/access.hpp>
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::test {
namespace {

using detail::wait_for_background_tasks;

// Memory of a failed release is lost to the process, and other tests fill the first device.
constexpr device_ref stale_device{1};

/// Slot 0 has `rows` blocks, and slot 3, the last one, shows them.
struct pair_of_slots {
  hipvmm::stream stream{stale_device};
  slot_arena arena;

  explicit pair_of_slots(std::size_t rows, const slot_arena_options& options = small_slots())
      : arena{stale_device, options} {
    arena.commit(sizes{0}, sizes{rows * granule()}, stream);
    if (rows != 0) write_end(arena, 0, 100, 1, stream);
    arena.share_prefix(0, sizes{3}, rows * granule(), stream);
    stream.synchronize();
    wait_for_background_tasks();
    // The memory of a pair before this one: its unmaps must not meet the plans of this one.
    drain_retired_memory();
  }
  [[nodiscard]] bool can_write(std::size_t slot) const {
    for (std::size_t plane = 0; plane < arena.planes(); ++plane)
      for (std::size_t at = 0; at < arena.length(slot); at += granule())
        if (get_access(advance(arena.pointer(slot, plane), at), stale_device) !=
            access_right::read_write)
          return false;
    return true;
  }
  void check_sums() const {
    const slot_arena_statistics now = arena.statistics();
    CHECK(now.held_bytes == now.needed_bytes + now.spare_bytes + now.kept_bytes);
    CHECK(now.held_bytes <= 16 * row());
    CHECK(now.shared_bytes <= now.needed_bytes + now.spare_bytes);
  }
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("slot_arena: what was shared and is refused to be unmapped is not grown into") {
  const error_recorder reported;
  for (const std::size_t lost : {1, 2, 3}) {
    CAPTURE(lost);
    pair_of_slots subject{2};
    subject.arena.release(3, subject.stream);
    subject.stream.synchronize();
    wait_for_background_tasks();
    {
      const planned_faults plan{"hipMemUnmap nth=" + std::to_string(lost) +
                                " error=hipErrorUnknown; hipMemUnmap nth=" +
                                std::to_string(lost + 1) + " error=hipErrorUnknown"};
      CHECK_THROWS_AS(subject.arena.commit(sizes{3}, sizes{3 * granule()}, subject.stream),
                      hip_error);
    }
    CHECK_FALSE(subject.arena.in_use(3));
    subject.check_sums();
    subject.arena.commit(sizes{3}, sizes{3 * granule()}, subject.stream);
    CHECK(subject.can_write(3));
    subject.check_sums();
    write_end(subject.arena, 3, 3 * granule(), 7, subject.stream);
    CHECK(has_end(subject.arena, 0, 100, 1, subject.stream));
    CHECK(subject.arena.statistics().shared_bytes == 0);
    CHECK(subject.arena.statistics().needed_bytes == 5 * row());
  }
}

TEST_CASE("slot_arena: a prefix that is half mapped is not grown into") {
  const error_recorder reported;
  pair_of_slots subject{0};
  subject.arena.release(3, subject.stream);
  subject.arena.commit(sizes{0}, sizes{2 * granule()}, subject.stream);
  write_end(subject.arena, 0, 2 * granule(), 1, subject.stream);
  subject.stream.synchronize();
  for (const char* const refused : {"hipMemMap", "hipMemSetAccess"}) {
    CAPTURE(refused);
    {
      const planned_faults plan{std::string{refused} +
                                " nth=2 error=hipErrorUnknown; hipMemUnmap error=hipErrorUnknown"};
      CHECK_THROWS_AS(subject.arena.share_prefix(0, sizes{3}, 2 * granule(), subject.stream),
                      hip_error);
    }
    CHECK_FALSE(subject.arena.in_use(3));
    subject.check_sums();
    subject.arena.commit(sizes{3}, sizes{2 * granule()}, subject.stream);
    CHECK(subject.can_write(3));
    write_end(subject.arena, 3, 2 * granule(), 7, subject.stream);
    CHECK(has_end(subject.arena, 0, 2 * granule(), 1, subject.stream));
    subject.check_sums();
    subject.arena.release(3, subject.stream);
    subject.stream.synchronize();
  }
}

TEST_CASE("slot_arena: a slot that was truncated in its prefix prefetches none of others") {
  slot_arena_options options = small_slots();
  options.prefetch_blocks = 3;
  pair_of_slots subject{4, options};
  subject.arena.truncate(3, 3 * granule(), subject.stream);
  // Lets the background thread look at all slots.
  CHECK(subject.arena.acquire(subject.stream) != 3);
  wait_for_background_tasks();
  CHECK(subject.arena.capacity(3) == 3 * granule());
  CHECK(subject.arena.statistics().spare_bytes == 3 * row());
  CHECK(subject.arena.statistics().failed_prefetches == 0);
  subject.arena.commit(sizes{3}, sizes{4 * granule()}, subject.stream);
  CHECK(subject.arena.capacity(3) == 4 * granule());
}

TEST_CASE("slot_arena: the last slot of a prefix whose rights were not restored is not reused") {
  std::uint64_t refused = 0;
  for (bool has_struck = true; has_struck;) {
    ++refused;
    CAPTURE(refused);
    pair_of_slots subject{1};
    {
      planned_fault fault{"hipMemSetAccess", refused, hipErrorUnknown};
      try {
        subject.arena.make_writable(3, 0, 1, subject.stream);
      } catch (const hip_error&) {
        CHECK_FALSE(subject.can_write(3));
      }
      has_struck = fault.end();
    }
    subject.arena.release(0, subject.stream);
    subject.stream.synchronize();
    subject.arena.trim();
    subject.arena.release(3, subject.stream);
    subject.arena.commit(sizes{3}, sizes{granule()}, subject.stream);
    CHECK(subject.can_write(3));
  }
  CHECK(refused > 2);
}

TEST_CASE("slot_arena: rights need no memory, whatever the budget") {
  pair_of_slots subject{1};
  subject.arena.release(0, subject.stream);
  subject.stream.synchronize();
  subject.arena.trim();
  subject.arena.set_budget(0);
  subject.arena.make_writable(3, 0, 1, subject.stream);
  CHECK(subject.can_write(3));
}

TEST_CASE("slot_arena: the highest use counts copies for writing") {
  pair_of_slots subject{1};
  subject.arena.make_writable(3, 0, 1, subject.stream);
  subject.arena.release(3, subject.stream);
  subject.stream.synchronize();
  subject.arena.trim();
  CHECK(subject.arena.statistics().peak_held_bytes == 2 * row());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
