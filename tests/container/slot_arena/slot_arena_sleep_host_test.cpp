// SPDX-License-Identifier: MIT
#include <hipvmm/region/retained_chunk.hpp>
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/host/host_test.hpp"
#include "support/waiting_thread.hpp"

// Arenas that sleep and wake.
namespace hipvmm::test {
namespace {

constexpr std::size_t end_piece = 64;

slot_arena_options asleep_by(const memory_tag& tag, std::size_t prefetched = 0) {
  slot_arena_options result = small_slots();
  result.prefetch_blocks = prefetched;
  result.tag = tag;
  return result;
}

/// Slots 0 and 1 have a block and two; if possible, slot 2 shows the first block of slot 1.
struct sleeping_arena {
  memory_tag tag;
  hipvmm::stream stream{first_device};
  slot_arena arena;
  bool shares;
  std::size_t rows;

  explicit sleeping_arena(bool wants_shared = true, std::size_t prefetched = 0)
      : arena{first_device, asleep_by(tag, prefetched)},
        shares{wants_shared && !capability_of(first_device).needs(quirk::no_aliases)},
        rows{3} {
    arena.commit(sizes{0, 1}, sizes{granule() / 2, 2 * granule()}, stream);
    write_end(arena, 0, end_piece, 1, stream);
    write_end(arena, 1, end_piece, 3, stream);
    write_first(1, 5);
    if (shares) arena.share_prefix(1, sizes{2}, granule(), stream);
    stream.synchronize();
  }
  void write_first(std::size_t slot, std::uint32_t seed) const {
    write_bytes(stream, arena.pointer(slot, 1), pattern(end_piece, seed));
  }
  [[nodiscard]] bool has_first(std::size_t slot, std::uint32_t seed) const {
    return read_bytes(stream, arena.pointer(slot, 1), end_piece) == pattern(end_piece, seed);
  }
  void check_awake() {
    CHECK_FALSE(tag.is_asleep());
    CHECK(has_end(arena, 0, end_piece, 1, stream));
    CHECK(has_end(arena, 1, end_piece, 3, stream));
    CHECK(has_first(1, 5));
    if (shares) {
      CHECK(has_first(2, 5));
      CHECK(get_access(arena.pointer(2, 1), first_device) == access_right::read);
      CHECK(arena.statistics().shared_bytes == row());
    }
    CHECK(arena.statistics().needed_bytes == rows * row());
  }
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("sleep: an arena wakes with its slots, and what they share is saved once") {
  sleeping_arena subject;
  const std::size_t before = first_device.free_memory();
  CHECK(suspend(subject.tag, keep::contents) == subject.rows * row());
  CHECK(subject.tag.statistics().bytes_on_host == subject.rows * row());
  CHECK(first_device.free_memory() >= before + subject.rows * row());
  CHECK(subject.arena.length(1) == 2 * granule());
  CHECK(resume(subject.tag) == subject.rows * row());
  subject.check_awake();
  if (subject.shares) {
    // They show the same memory still, and part when one is written.
    subject.write_first(1, 9);
    CHECK(subject.has_first(2, 9));
    subject.arena.make_writable(2, 0, granule(), subject.stream);
    subject.write_first(2, 7);
    CHECK(subject.has_first(1, 9));
  }
  subject.arena.commit(sizes{0}, sizes{3 * granule()}, subject.stream);
}

TEST_CASE_FIXTURE(sleeping_arena, "sleep: ranges are of one slot's memory alone") {
  const auto with = [&](std::size_t slot, keep what) {
    return suspend_options{{}, {}, {}, {{arena.pointer(slot, 1), end_piece, what}}};
  };
  for (const std::size_t slot : {1U, 2U}) {
    if (!shares) continue;
    CHECK_THROWS_WITH_AS(suspend(tag, keep::contents, with(slot, keep::zeros)),
                         doctest::Contains("shown at other addresses too"), std::invalid_argument);
    check_awake();
  }
  CHECK(suspend(tag, keep::contents, with(0, keep::zeros)) == rows * row());
  CHECK(tag.statistics().bytes_on_host == rows * row() - end_piece);
  resume(tag);
  CHECK(read_bytes(stream, arena.pointer(0, 1), end_piece) ==
        std::vector<unsigned char>(end_piece, 0));
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_arena, "sleep: what is shared stays with all that shows it") {
  if (!shares || capability_of(first_device).needs(quirk::re_reserve)) return;
  const suspend_options options{{}, {}, {}, {{arena.pointer(0, 0), granule(), keep::nothing}}};
  CHECK(suspend(tag, keep::mapped, options) == granule());
  // Memory that several slots show counts once.
  CHECK(tag.statistics().bytes_mapped == rows * row() - granule());
  CHECK(has_first(2, 5));
  CHECK(resume(tag) == granule());
  CHECK(has_first(1, 5));
  CHECK(arena.statistics().shared_bytes == row());
}

TEST_CASE("sleep: the held bytes of an arena are those that HIP counts") {
  chunk_cache::shared().trim();
  drain_retired_memory();
  const std::size_t outside = hipvmm_host_device_bytes(0);
  const auto check_held = [&](const sleeping_arena& of) {
    CHECK(of.arena.statistics().held_bytes == hipvmm_host_device_bytes(0) - outside);
  };
  sleeping_arena subject;
  check_held(subject);
  suspend(subject.tag, keep::contents);
  CHECK(subject.arena.statistics().held_bytes == 0);
  check_held(subject);
  subject.arena.release(0, subject.stream);
  CHECK(subject.arena.slots_that_fit(1) == (subject.shares ? 2 : 3));
  {
    const planned_faults refused{"hipMemMap error=hipErrorUnknown"};
    CHECK_THROWS_AS(resume(subject.tag), hip_error);
  }
  check_held(subject);
  resume(subject.tag);
  check_held(subject);
  CHECK(subject.arena.statistics().held_bytes == subject.rows * row());
  if (capability_of(first_device).needs(quirk::re_reserve)) return;
  suspend(
      subject.tag, keep::mapped,
      {{}, {}, {}, {{advance(subject.arena.pointer(1, 0), granule()), granule(), keep::nothing}}});
  CHECK(subject.arena.statistics().held_bytes == (subject.rows - 1) * row() - granule());
  check_held(subject);
}

TEST_CASE_FIXTURE(sleeping_arena, "sleep: a prefix of which only readers are left comes back") {
  if (!shares) return;
  arena.share_prefix(2, sizes{3}, granule(), stream);
  arena.release(1, stream);
  CHECK(suspend(tag, keep::contents) == 2 * row());
  resume(tag);
  for (const std::size_t slot : {2U, 3U}) {
    CHECK(has_first(slot, 5));
    CHECK(get_access(arena.pointer(slot, 1), first_device) == access_right::read);
  }
}

TEST_CASE("sleep: an arena refuses what needs memory, and lets slots go") {
  sleeping_arena subject{false};
  slot_arena& arena = subject.arena;
  suspend(subject.tag, keep::nothing);
  const auto refused = [](auto operation) { CHECK_THROWS_AS(operation(), std::logic_error); };
  refused([&] { arena.commit(sizes{0}, sizes{1}, subject.stream); });
  refused([&] { arena.commit(sizes{0}, sizes{3 * granule()}, subject.stream); });
  refused([&] { arena.share_prefix(1, sizes{2}, granule(), subject.stream); });
  refused([&] { arena.make_writable(1, 0, 1, subject.stream); });
  refused([&] { arena.set_budget(1); });
  refused([&] { static_cast<void>(arena.trim()); });
  arena.release(1, subject.stream);
  arena.truncate(0, 1, subject.stream);
  CHECK(arena.statistics().slots_in_use == 1);
  slot_arena moved = std::move(arena);
  resume(subject.tag);
  moved.commit(sizes{1}, sizes{4 * granule()}, subject.stream);
  write_end(moved, 1, end_piece, 3, subject.stream);
  CHECK(has_end(moved, 1, end_piece, 3, subject.stream));
}

TEST_CASE("sleep: nothing is prefetched while an arena sleeps, and again behind its wake") {
  sleeping_arena subject{false, 1};
  const auto has_ahead = [&] { return subject.arena.capacity(1) == 3 * granule(); };
  CHECK(comes_true(has_ahead));
  CHECK(suspend(subject.tag, keep::nothing) == subject.rows * row());
  const call_counter made{"hipMemCreate"};
  subject.arena.truncate(1, granule(), subject.stream);
  static_cast<void>(subject.arena.acquire(subject.stream));
  CHECK_FALSE(happens([&] { return made.count() != 0; }));
  resume(subject.tag);
  CHECK(comes_true([&] { return subject.arena.capacity(0) == 2 * granule(); }));
}

TEST_CASE("sleep: an arena whose suspend is refused prefetches again") {
  if (!capability_of(first_device).has(trait::retains_chunks)) return;
  sleeping_arena subject{false, 1};
  const auto has_ahead = [&] { return subject.arena.capacity(1) == 3 * granule(); };
  CHECK(comes_true(has_ahead));
  {
    const retained_chunk held = retain_chunk(subject.arena.pointer(0, 0));
    CHECK_THROWS_AS(suspend(subject.tag, keep::nothing), std::invalid_argument);
  }
  CHECK(comes_true(has_ahead));
}

TEST_CASE("sleep: a shared block that was retained for a while can be suspended") {
  const capability found = capability_of(first_device);
  if (!found.has(trait::retains_chunks) || found.needs(quirk::no_aliases)) return;
  const hipvmm_host_counters before = live_objects();
  {
    const memory_tag tag;
    const stream stream{first_device};
    slot_arena arena{first_device, asleep_by(tag)};
    arena.commit(sizes{0}, sizes{granule()}, stream);
    arena.share_prefix(0, sizes{1}, granule(), stream);
    for (int time = 0; time < 2; ++time) {
      const retained_chunk held = retain_chunk(arena.pointer(0, 0));
      CHECK_THROWS_AS(suspend(tag, keep::nothing), std::invalid_argument);
    }
    suspend(tag, keep::nothing);
    resume(tag);
    CHECK(arena.statistics().shared_bytes != 0);
  }
  drain_retired_memory();
  chunk_cache::shared().trim();
  CHECK(live_objects().handles == before.handles);
}

TEST_CASE("sleep: each of several arenas stays awake where another memory is refused") {
  if (!capability_of(first_device).has(trait::retains_chunks)) return;
  const memory_tag tag;
  const stream stream{first_device};
  slot_arena one{first_device, asleep_by(tag, 1)};
  slot_arena two{first_device, asleep_by(tag, 1)};
  for (slot_arena* const each : {&one, &two}) each->commit(sizes{0}, sizes{1}, stream);
  const auto have_ahead = [&] {
    return one.capacity(0) == 2 * granule() && two.capacity(0) == 2 * granule();
  };
  CHECK(comes_true(have_ahead));
  slot_arena last{first_device, asleep_by(tag)};
  last.commit(sizes{0}, sizes{1}, stream);
  const retained_chunk held = retain_chunk(last.pointer(0, 0));
  CHECK_THROWS_AS(suspend(tag, keep::nothing), std::invalid_argument);
  CHECK(comes_true(have_ahead));
}

TEST_CASE("sleep: blocks of released slots are not saved, even those that are in use yet") {
  sleeping_arena subject{false};
  blocked_stream work{first_device};
  subject.arena.release(1, work);
  opened_by_wait opener{[&] { work.release(); }};
  const std::size_t bytes = suspend(subject.tag, keep::contents);
  CHECK(opener.was_waited_for());
  CHECK(bytes == row());
  resume(subject.tag);
  CHECK(has_end(subject.arena, 0, end_piece, 1, subject.stream));
}

TEST_CASE("sleep: an arena may end while it sleeps") {
  const hipvmm_host_counters before = live_objects();
  {
    const sleeping_arena subject;
    suspend(subject.tag, keep::contents);
  }
  drain_retired_memory();
  CHECK(live_objects() == before);
}

TEST_CASE("sleep: suspend and resume of an arena that fail") {
  for (const bool wakes : {false, true}) {
    fault_sweep{wakes ? "resume" : "suspend", after_failure::capacity}.run(
        [&] {
          auto result = std::make_unique<sleeping_arena>();
          if (wakes) suspend(result->tag, keep::contents);
          return result;
        },
        [&](auto& subject) { wakes ? resume(subject.tag) : suspend(subject.tag, keep::contents); },
        [&](auto& subject) {
          CHECK(subject.tag.is_asleep() == wakes);
          resume(subject.tag);
          subject.check_awake();
        },
        [&](auto& subject) {
          CHECK(subject.tag.is_asleep() == !wakes);
          resume(subject.tag);
          subject.check_awake();
        });
  }
}

TEST_CASE("slot_arena: is made while another thread suspends and resumes its tag") {
  const memory_tag tag;
  std::atomic<bool> is_over{false};
  std::thread sleeper{[&] {
    while (!is_over) {
      suspend(tag, keep::nothing);
      resume(tag);
    }
  }};
  for (int i = 0; i < 100; ++i) slot_arena{first_device, asleep_by(tag)};
  is_over = true;
  sleeper.join();
  CHECK_FALSE(tag.is_asleep());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
