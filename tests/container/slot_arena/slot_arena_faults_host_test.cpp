// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

// Not the current one, so that switching devices is swept as well.
constexpr device_ref filling_device{1};

/// An arena of three slots in use, one of which holds known bytes; its budget is just its need.
struct used_arena {
  hipvmm::stream stream{filling_device};
  slot_arena arena{filling_device, small_slots(4, 5 * row())};

  used_arena() {
    arena.commit(sizes{0, 1, 2}, sizes{granule() + 10, 2 * granule(), 10}, stream);
    write_end(arena, 0, 100, 1, stream);
    stream.synchronize();
  }
  void check_unchanged() const {
    CHECK(arena.length(0) == granule() + 10);
    CHECK(arena.length(1) == 2 * granule());
    CHECK(arena.length(2) == 10);
    CHECK_FALSE(arena.in_use(3));
    CHECK(has_end(arena, 0, 100, 1, stream));
    const slot_arena_statistics now = arena.statistics();
    CHECK(now.needed_bytes == 5 * row());
    CHECK(now.held_bytes == now.needed_bytes + now.spare_bytes + now.kept_bytes);
  }
};

template <typename Operation, typename Done>
void sweep(const char* name, Operation operation, Done done) {
  fault_sweep{name, after_failure::capacity}.run<used_arena>(
      [&](auto& subject) { operation(subject); }, [](auto& subject) { subject.check_unchanged(); },
      [&](auto& subject) { done(subject); });
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("slot_arena: a construction that fails leaves nothing") {
  fault_sweep{"construction"}.run([] { const slot_arena made{filling_device, small_slots()}; });
}

TEST_CASE("slot_arena: a commit that fails changes nothing") {
  struct empty_arena {
    hipvmm::stream stream{filling_device};
    slot_arena arena{filling_device, small_slots()};
  };
  fault_sweep{"commit"}.run<empty_arena>(
      [](auto& subject) {
        subject.arena.commit(sizes{0, 3}, sizes{granule() + 1, 1}, subject.stream);
      },
      [](auto& subject) {
        CHECK_FALSE(subject.arena.in_use(0));
        CHECK_FALSE(subject.arena.in_use(3));
        CHECK(subject.arena.statistics().held_bytes == 0);
      },
      [](auto& subject) {
        CHECK(subject.arena.length(0) == granule() + 1);
        CHECK(subject.arena.statistics().held_bytes == 3 * row());
      });
}

TEST_CASE("slot_arena: a commit of what another slot left that fails changes nothing") {
  sweep(
      "truncate and commit",
      [](used_arena& subject) {
        try {
          subject.arena.truncate(1, 1, subject.stream);
          subject.arena.commit(sizes{2, 3}, sizes{20, 10}, subject.stream);
        } catch (...) {
          // Back to the state that the sweep knows, which may need the lost memory.
          if (subject.arena.length(1) == 1)
            subject.arena.commit(sizes{1}, sizes{2 * granule()}, subject.stream);
          throw;
        }
      },
      [](const used_arena& subject) {
        CHECK(subject.arena.length(3) == 10);
        CHECK(subject.arena.length(2) == 20);
        CHECK(subject.arena.statistics().held_bytes == 5 * row());
        CHECK(has_end(subject.arena, 0, 100, 1, subject.stream));
      });
}

TEST_CASE("slot_arena: a release that fails changes nothing") {
  sweep(
      "release", [](used_arena& subject) { subject.arena.release(2, subject.stream); },
      [](const used_arena& subject) { CHECK_FALSE(subject.arena.in_use(2)); });
  sweep(
      "truncate", [](used_arena& subject) { subject.arena.truncate(1, 5, subject.stream); },
      [](const used_arena& subject) { CHECK(subject.arena.length(1) == 5); });
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
