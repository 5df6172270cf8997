// SPDX-License-Identifier: MIT
#include <unistd.h>

#include "c/c_interface.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* four_slots = "slots=4,bytes_per_slot=8MiB,planes=2,block=2MiB,prefetch=0";

owned_slot_arena make_arena(const char* options = four_slots) {
  return owned_slot_arena{result_of(hipvmm_slot_arena_create, 0, options)};
}

hipvmm_slot_arena_statistics statistics_of(hipvmm_slot_arena arena) {
  return result_of(hipvmm_slot_arena_get_statistics, arena);
}

std::size_t length_of(hipvmm_slot_arena arena, std::size_t slot) {
  return result_of(hipvmm_slot_arena_length, arena, slot);
}

void* pointer_of(hipvmm_slot_arena arena, std::size_t slot, std::size_t plane) {
  return result_of(hipvmm_slot_arena_pointer, arena, slot, plane);
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("C slots: a batch grows in place, and its bytes are read again") {
  const owned_slot_arena arena = make_arena();
  std::vector<std::size_t> slots(2);
  for (std::size_t& each : slots) require_ok(hipvmm_slot_arena_acquire(arena, nullptr, &each));
  require_ok(hipvmm_slot_arena_commit(arena, slots.data(),
                                      std::vector<std::size_t>{100, 200}.data(), 2, nullptr));
  void* const first = pointer_of(arena, slots[1], 1);
  require_ok(hipvmm_fill_async(first, 'x', 200, nullptr));
  require_ok(hipvmm_slot_arena_commit(arena, slots.data(),
                                      std::vector<std::size_t>{100, 3 * MiB}.data(), 2, nullptr));
  CHECK(pointer_of(arena, slots[1], 1) == first);
  char last = 0;
  require_ok(hipvmm_copy(&last, static_cast<char*>(first) + 199, 1, nullptr));
  CHECK(last == 'x');
  CHECK(length_of(arena, slots[0]) == 100);
  CHECK(length_of(arena, slots[1]) == 3 * MiB);
  CHECK(result_of(hipvmm_slot_arena_capacity, arena, slots[1]) == 4 * MiB);
  const hipvmm_slot_arena_statistics now = statistics_of(arena);
  CHECK(now.slots_in_use == 2);
  CHECK(now.used_bytes == 2 * (100 + 3 * MiB));
  CHECK(now.needed_bytes == 2 * (2 * MiB + 4 * MiB));
  CHECK(now.grown_blocks == 6);
}

TEST_CASE("C slots: the layout says where each slot is") {
  const owned_slot_arena arena = make_arena();
  hipvmm_slot_arena_layout layout{};
  CHECK(fails(hipvmm_slot_arena_get_layout(arena, &layout), HIPVMM_ERROR_INVALID_ARGUMENT,
              "struct_size is 0"));
  layout = result_of(hipvmm_slot_arena_get_layout, arena);
  CHECK(layout.slots == 4);
  CHECK(layout.planes == 2);
  CHECK(layout.bytes_per_slot == 8 * MiB);
  CHECK(layout.block_bytes == 2 * MiB);
  CHECK(layout.device == 0);
  CHECK(pointer_of(arena, 3, 1) ==
        static_cast<char*>(layout.base) + layout.plane_stride + 3 * layout.slot_stride);
}

TEST_CASE("C slots: a released slot is free, and its blocks serve the next") {
  const owned_slot_arena arena = make_arena();
  std::size_t slot = result_of(hipvmm_slot_arena_acquire, arena, nullptr);
  const std::size_t length = 3 * MiB;
  require_ok(hipvmm_slot_arena_commit(arena, &slot, &length, 1, nullptr));
  require_ok(hipvmm_slot_arena_truncate(arena, slot, MiB, nullptr));
  CHECK(length_of(arena, slot) == MiB);
  require_ok(hipvmm_slot_arena_release(arena, slot, nullptr));
  require_ok(hipvmm_synchronize(nullptr));  // else the next may get another slot
  CHECK(result_of(hipvmm_slot_arena_in_use, arena, slot) == 0);
  require_ok(hipvmm_slot_arena_acquire(arena, nullptr, &slot));
  CHECK(result_of(hipvmm_slot_arena_in_use, arena, slot) == 1);
  require_ok(hipvmm_slot_arena_commit(arena, &slot, &length, 1, nullptr));
  CHECK(statistics_of(arena).grown_blocks == 4);
  require_ok(hipvmm_slot_arena_release(arena, slot, nullptr));
  require_ok(hipvmm_synchronize(nullptr));
  CHECK(result_of(hipvmm_slot_arena_trim, arena) == 8 * MiB);
  require_ok(hipvmm_slot_arena_trim(arena, nullptr));
}

TEST_CASE("C slots: a batch beyond the budget changes nothing, and fits after a release") {
  const owned_slot_arena arena =
      make_arena("slots=4,bytes_per_slot=8MiB,block=2MiB,prefetch=0,budget=4MiB");
  CHECK(result_of(hipvmm_slot_arena_slots_that_fit, arena, 2 * MiB) == 2);
  const std::size_t slots[] = {0, 1, 2};
  const std::size_t lengths[] = {1, 1, 1};
  CHECK(fails(hipvmm_slot_arena_commit(arena, slots, lengths, 3, nullptr),
              HIPVMM_ERROR_OUT_OF_MEMORY, "budget"));
  CHECK(result_of(hipvmm_last_failure).exhausted == HIPVMM_EXHAUSTED_LIMIT);
  CHECK(statistics_of(arena).used_bytes == 0);
  require_ok(hipvmm_slot_arena_commit(arena, slots, lengths, 2, nullptr));
  require_ok(hipvmm_slot_arena_release(arena, 0, nullptr));
  require_ok(hipvmm_slot_arena_commit(arena, slots + 1, lengths, 2, nullptr));
  CHECK(statistics_of(arena).held_bytes == 4 * MiB);
  require_ok(hipvmm_slot_arena_set_budget(arena, 6 * MiB));
  require_ok(hipvmm_slot_arena_commit(arena, slots, lengths, 3, nullptr));
  CHECK(statistics_of(arena).budget_bytes == 6 * MiB);
}

TEST_CASE("C slots: a prefix is shared, and written after a copy") {
  const owned_slot_arena arena = make_arena();
  const std::size_t from = 0;
  const std::size_t length = 2 * MiB + 100;
  require_ok(hipvmm_slot_arena_commit(arena, &from, &length, 1, nullptr));
  for (const std::size_t plane : {0, 1})
    require_ok(hipvmm_fill_async(pointer_of(arena, from, plane), 'x', length, nullptr));
  const std::size_t to[] = {1, 2};
  const hipvmm_status shared = hipvmm_slot_arena_share_prefix(arena, from, to, 2, length, nullptr);
  if (shared == HIPVMM_ERROR_UNSUPPORTED) return;  // aliases that are not coherent
  require_ok(shared);
  CHECK(length_of(arena, 2) == length);
  CHECK(statistics_of(arena).shared_bytes == 2 * 2 * 2 * MiB);
  require_ok(hipvmm_slot_arena_make_writable(arena, 2, 0, 1, nullptr));
  require_ok(hipvmm_fill_async(pointer_of(arena, 2, 0), 'y', 1, nullptr));
  const auto first_of = [&](std::size_t slot) {
    char first = 0;
    require_ok(hipvmm_copy(&first, pointer_of(arena, slot, 0), 1, nullptr));
    return first;
  };
  CHECK(first_of(0) == 'x');
  CHECK(first_of(1) == 'x');
  CHECK(first_of(2) == 'y');
}

/// A callback of a test, which is called as one of C.
using evictions = std::function<hipvmm_status(std::size_t)>;

hipvmm_status call_evictions(std::size_t missing, void* argument) {
  return (*static_cast<evictions*>(argument))(missing);
}

/// An arena of two blocks, both of which slots 0 and 1 have.
struct full_arena {
  owned_slot_arena arena = make_arena(
      "slots=4,bytes_per_slot=8MiB,block=2MiB,prefetch=0,budget=4MiB,sleep_tag=full_c_arena");
  evictions evict;

  full_arena() {
    const std::size_t slots[] = {0, 1};
    const std::size_t lengths[] = {1, 1};
    require_ok(hipvmm_slot_arena_commit(arena, slots, lengths, 2, nullptr));
    require_ok(hipvmm_slot_arena_set_eviction(arena, call_evictions, &evict));
  }
  /// Slots 0 and 2 need two blocks more.
  hipvmm_status grow() {
    const std::size_t slots[] = {2, 0};
    const std::size_t lengths[] = {1, 2};
    return hipvmm_slot_arena_commit(arena, slots, lengths, 2, nullptr);
  }
  void check_unchanged() {
    CHECK(length_of(arena, 0) == 1);
    CHECK(length_of(arena, 1) == 1);
    CHECK(length_of(arena, 2) == 0);
  }
};

TEST_CASE("C slots: an eviction callback makes room") {
  full_arena full;
  std::size_t missing = 0;
  full.evict = [&](std::size_t bytes) {
    missing = bytes;
    CHECK(result_of(hipvmm_slot_arena_slots_that_fit, full.arena, 1) == 0);
    return hipvmm_slot_arena_release(full.arena, 1, nullptr);
  };
  const char* const earlier = "slot 99";
  CHECK(fails(hipvmm_slot_arena_release(full.arena, 99, nullptr), HIPVMM_ERROR_OUT_OF_RANGE,
              earlier));
  require_ok(full.grow());
  CHECK(std::string{hipvmm_last_error()}.find(earlier) != std::string::npos);
  CHECK(missing == 2 * MiB);
  CHECK(length_of(full.arena, 0) == 2);
  CHECK(length_of(full.arena, 2) == 1);
  CHECK(statistics_of(full.arena).evictions == 1);
  require_ok(hipvmm_slot_arena_set_eviction(full.arena, nullptr, nullptr));
  full.evict = nullptr;
  const std::size_t slot = 3;
  const std::size_t length = 1;
  CHECK(fails(hipvmm_slot_arena_commit(full.arena, &slot, &length, 1, nullptr),
              HIPVMM_ERROR_OUT_OF_MEMORY, "budget"));
}

// A watchdog ends the process.
HIPVMM_TEST_CASE_IN("C slots: an eviction callback uses objects that a suspend waits for too", {}) {
  ::alarm(20);
  const char* const options = "max=64MiB,sleep_tag=full_c_arena";
  std::vector<owned_buffer> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(make_buffer(options));
  full_arena full;
  for (int i = 0; i < 8; ++i) buffers.push_back(make_buffer(options));
  hipvmm_status slept = HIPVMM_ERROR_INTERNAL;
  std::optional<watched_thread> sleeper;
  full.evict = [&](std::size_t) {
    sleeper.emplace(
        [&] { slept = hipvmm_suspend("full_c_arena", HIPVMM_KEEP_CONTENTS, nullptr, nullptr); });
    CHECK(sleeper->comes_to_wait());
    for (const owned_buffer& each : buffers) CHECK(size_of(each) == 0);
    buffers.push_back(make_buffer(options));
    return hipvmm_slot_arena_release(full.arena, 1, nullptr);
  };
  require_ok(full.grow());
  sleeper->join();
  CHECK(slept == HIPVMM_OK);
  require_ok(hipvmm_resume("full_c_arena", nullptr));
}

TEST_CASE("C slots: what an eviction callback returns is what the commit returns") {
  full_arena full;
  full.evict = [&](std::size_t) { return hipvmm_slot_arena_release(full.arena, 0, nullptr); };
  CHECK(fails(full.grow(), HIPVMM_ERROR_INVALID_ARGUMENT, "slot 0 is of the batch"));
  full.check_unchanged();
  // The message names the callback, not the earlier failure.
  full.evict = [](std::size_t) { return HIPVMM_ERROR_INVALID_ARGUMENT; };
  CHECK(fails(full.grow(), HIPVMM_ERROR_INVALID_ARGUMENT, "returned invalid_argument (1)"));
  full.evict = [](std::size_t) { return HIPVMM_ERROR_OUT_OF_MEMORY; };
  CHECK(fails(full.grow(), HIPVMM_ERROR_OUT_OF_MEMORY,
              "hipvmm_slot_arena_commit: the eviction callback returned out_of_memory (3)"));
  full.check_unchanged();
  full.evict = [](std::size_t) { return static_cast<hipvmm_status>(99); };
  CHECK(fails(full.grow(), static_cast<hipvmm_status>(99), "returned unknown (99)"));
  full.check_unchanged();
  full.evict = [](std::size_t) -> hipvmm_status { throw std::runtime_error{"of C++"}; };
  CHECK(fails(full.grow(), HIPVMM_ERROR_INTERNAL, "of C++"));
  full.check_unchanged();
}

TEST_CASE("C slots: what an eviction callback may not call is refused") {
  full_arena full;
  const std::size_t slot = 3;
  std::size_t bytes = 77;
  const std::vector<std::pair<std::function<hipvmm_status()>, hipvmm_status>> calls{
      {[&] { return hipvmm_slot_arena_acquire(full.arena, nullptr, &bytes); },
       HIPVMM_ERROR_INVALID_STATE},
      {[&] { return hipvmm_slot_arena_commit(full.arena, &slot, &slot, 1, nullptr); },
       HIPVMM_ERROR_INVALID_STATE},
      {[&] { return hipvmm_slot_arena_share_prefix(full.arena, 0, &slot, 1, 1, nullptr); },
       HIPVMM_ERROR_INVALID_STATE},
      {[&] { return hipvmm_slot_arena_make_writable(full.arena, 0, 0, 1, nullptr); },
       HIPVMM_ERROR_INVALID_STATE},
      {[&] { return hipvmm_slot_arena_set_eviction(full.arena, nullptr, nullptr); },
       HIPVMM_ERROR_INVALID_STATE},
      {[&] { return hipvmm_suspend("full_c_arena", HIPVMM_KEEP_NOTHING, nullptr, nullptr); },
       HIPVMM_ERROR_INVALID_ARGUMENT},
  };
  for (const auto& each : calls) {
    full.evict = [&](std::size_t) { return each.first(); };
    CHECK(full.grow() == each.second);
    full.check_unchanged();
  }
  CHECK(bytes == 77);
  require_ok(hipvmm_slot_arena_release(full.arena, 1, nullptr));
  require_ok(full.grow());
}

TEST_CASE("C slots: an arena that its eviction callback destroys ends with the commit") {
  full_arena full;
  full.evict = [&](std::size_t) {
    full.arena.reset();
    return HIPVMM_OK;
  };
  const hipvmm_slot_arena stale = full.arena;
  CHECK(full.grow() == HIPVMM_ERROR_OUT_OF_MEMORY);
  CHECK(hipvmm_slot_arena_trim(stale, nullptr) == HIPVMM_ERROR_INVALID_HANDLE);
}

TEST_CASE("C slots: wrong slots, lengths, lists and options are refused") {
  const owned_slot_arena arena = make_arena();
  const std::size_t slot = 9;
  const std::size_t length = 1;
  CHECK(fails(hipvmm_slot_arena_commit(arena, &slot, &length, 1, nullptr),
              HIPVMM_ERROR_OUT_OF_RANGE, "9"));
  CHECK(fails(hipvmm_slot_arena_commit(arena, nullptr, &length, 1, nullptr),
              HIPVMM_ERROR_INVALID_ARGUMENT, "slots is null, and is to have 1 entries"));
  CHECK(fails(hipvmm_slot_arena_commit(arena, &slot, nullptr, 1, nullptr),
              HIPVMM_ERROR_INVALID_ARGUMENT, "lengths is null"));
  CHECK(fails(hipvmm_slot_arena_share_prefix(arena, 0, nullptr, 1, 1, nullptr),
              HIPVMM_ERROR_INVALID_ARGUMENT, "to is null"));
  require_ok(hipvmm_slot_arena_commit(arena, nullptr, nullptr, 0, nullptr));
  CHECK(hipvmm_slot_arena_release(arena, 0, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_slot_arena_acquire(arena, nullptr, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(statistics_of(arena).slots_in_use == 0);
  CHECK(hipvmm_slot_arena_length(arena, 0, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_slot_arena_in_use(arena, 0, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  void* pointer = nullptr;
  CHECK(hipvmm_slot_arena_pointer(arena, 0, 2, &pointer) == HIPVMM_ERROR_OUT_OF_RANGE);
  hipvmm_slot_arena made = arena;
  CHECK(fails(hipvmm_slot_arena_create(0, "slots=4", &made), HIPVMM_ERROR_INVALID_ARGUMENT,
              "bytes_per_slot"));
  CHECK(made == nullptr);
  CHECK(fails(hipvmm_slot_arena_create(0, "layout=dense", &made), HIPVMM_ERROR_INVALID_ARGUMENT,
              "allowed: separate or packed"));
  CHECK(hipvmm_slot_arena_create(99, four_slots, &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_slot_arena_create(0, four_slots, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("C slots: packed slots share a block") {
  const owned_slot_arena arena =
      make_arena("slots=4,bytes_per_slot=64KiB,layout=packed,block=2MiB,prefetch=0");
  const std::size_t slots[] = {0, 1, 2, 3};
  const std::size_t lengths[] = {1, 1, 1, 64 * KiB};
  require_ok(hipvmm_slot_arena_commit(arena, slots, lengths, 4, nullptr));
  CHECK(statistics_of(arena).held_bytes == 2 * MiB);
}

TEST_SUITE_END();

TEST_CASE("C slots: without virtual memory there are none" * needs_fallback) {
  hipvmm_slot_arena made = nullptr;
  CHECK(hipvmm_slot_arena_create(0, four_slots, &made) == HIPVMM_ERROR_UNSUPPORTED);
}

}  // namespace
}  // namespace hipvmm::test
