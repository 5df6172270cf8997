// SPDX-License-Identifier: MIT
// When the memory of a slot is used by another one. Under HIPVMM_HOST_CHECK=1 the order checker
// judges the same cases.
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// An arena of full budget, slot 0 of which a held stream is about to read.
struct arena_in_use {
  stream reader{first_device};
  stream other{first_device};
  pinned_memory result{MiB};
  slot_arena arena;
  std::size_t bytes = std::min(MiB, granule());
  std::unique_ptr<held_streams> held;

  explicit arena_in_use(std::size_t rows, std::size_t budget_rows = 2)
      : arena{first_device, small_slots(4, budget_rows * row())} {
    // No wait for memory that earlier cases retired may fall into the count of calls.
    drain_retired_memory();
    arena.commit(sizes{0}, sizes{rows * granule()}, reader);
    fill_async(reader, arena.pointer(0), 0x42, rows * granule());
    reader.synchronize();
    held = std::make_unique<held_streams>();
    copy_async(reader, result.get(), arena.pointer(0), bytes);
  }
  void check_read() {
    held->release();
    reader.synchronize();
    CHECK(std::vector(result.get(), result.get() + bytes) == byte_vector(bytes, 0x42));
  }
};

TEST_CASE("slot_arena: release waits for nothing") {
  arena_in_use subject{2};
  const calls_of waits{waiting_functions};
  subject.arena.release(0, subject.reader);
  CHECK(waits.count() == 0);
  CHECK_FALSE(subject.arena.in_use(0));
  subject.check_read();
}

TEST_CASE("slot_arena: no call costs a capture of another thread") {
  arena_in_use subject{2};
  stream captured;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  subject.arena.release(0, subject.reader);
  CHECK(subject.arena.acquire(subject.reader) != 0);
  CHECK(subject.arena.statistics().held_bytes != 0);
  end_capture(captured.get());
  subject.check_read();
}

HIPVMM_TEST_CASE_IN("slot_arena: on AMD no event is recorded in an idle stream",
                    {"HIPVMM_HOST_PROFILE=rocm-7.2"}) {
  const stream used{first_device};
  slot_arena arena{first_device, small_slots()};
  arena.commit(sizes{0}, sizes{granule()}, used);
  used.synchronize();
  const call_counter records{"hipEventRecord"};
  arena.release(0, used);
  CHECK(records.count() == 0);
  arena.commit(sizes{0}, sizes{granule()}, used);
  const held_streams held;
  fill_async(used, arena.pointer(0), 0x17, granule());
  arena.release(0, used);
  CHECK(records.count() == 1);
}

TEST_CASE("slot_arena: a released slot is used again at once, in stream order") {
  arena_in_use subject{2};
  subject.arena.release(0, subject.reader);
  const calls_of waits{waiting_functions};
  const call_counter creations{"hipMemCreate"};
  SUBCASE("by its own stream") {
    // The others are empty, and passed; memory decides.
    subject.arena.commit(sizes{0}, sizes{2 * granule()}, subject.reader);
    fill_async(subject.reader, subject.arena.pointer(0), 0x17, granule());
  }
  SUBCASE("by another stream, which waits") {
    subject.arena.commit(sizes{0}, sizes{2 * granule()}, subject.other);
    fill_async(subject.other, subject.arena.pointer(0), 0x17, granule());
  }
  CHECK(waits.count() == 0);
  CHECK(creations.count() == 0);
  CHECK(subject.arena.length(0) == 2 * granule());
  subject.check_read();
  subject.other.synchronize();
  CHECK(read_bytes(subject.other, subject.arena.pointer(0), 10) == byte_vector(10, 0x17));
}

TEST_CASE("slot_arena: other slots get new memory while released slots are read") {
  arena_in_use subject{1, 2};
  subject.arena.release(0, subject.reader);
  const calls_of waits{waiting_functions};
  subject.arena.commit(sizes{1}, sizes{granule()}, subject.other);
  CHECK(waits.count() == 0);
  CHECK(subject.arena.statistics().moved_blocks == 0);
  subject.check_read();
}

TEST_CASE("slot_arena: where only released memory is left, a commit waits for its work") {
  arena_in_use subject{2};
  SUBCASE("of a released slot") { subject.arena.release(0, subject.reader); }
  SUBCASE("of a truncated slot") { subject.arena.truncate(0, granule(), subject.reader); }
  const calls_of waits{waiting_functions};
  const call_counter unmaps{"hipMemUnmap"};
  std::thread grows{[&] { subject.arena.commit(sizes{1}, sizes{granule()}, subject.other); }};
  while (waits.count() == 0 && unmaps.count() == 0) std::this_thread::yield();
  CHECK(unmaps.count() == 0);
  subject.held->release();
  grows.join();
  CHECK(unmaps.count() > 0);
  CHECK(subject.arena.length(1) == granule());
  CHECK(subject.arena.statistics().held_bytes == 2 * row());
  subject.check_read();
}

TEST_CASE("slot_arena: a commit gets what a release left, whenever its work passes") {
  const stream stream{first_device};
  // The work passes between two looks at it.
  for (std::size_t looks = 0; looks <= 6; ++looks) {
    CAPTURE(looks);
    slot_arena arena{first_device, small_slots(4, 2 * row())};
    arena.commit(sizes{0}, sizes{2 * granule()}, stream);
    arena.release(0, stream);
    stream.synchronize();
    std::string not_ready;
    for (std::size_t i = 1; i <= looks; ++i)
      not_ready += "hipEventQuery nth=" + std::to_string(i) + " error=hipErrorNotReady; ";
    REQUIRE(hipvmm_host_set_faults(not_ready.c_str()) == nullptr);
    CHECK_NOTHROW(arena.commit(sizes{1}, sizes{granule()}, stream));
    hipvmm_host_set_faults(nullptr);
    CHECK(arena.length(1) == granule());
  }
}

TEST_CASE("slot_arena: acquire prefers a slot whose work has passed") {
  arena_in_use subject{2, 4};
  subject.arena.commit(sizes{1}, sizes{granule()}, subject.other);
  subject.arena.release(0, subject.reader);
  CHECK(subject.arena.acquire(subject.other) != 0);
  CHECK(subject.arena.acquire(subject.other) != 0);
  const calls_of waits{waiting_functions};
  CHECK(subject.arena.acquire(subject.other) == 0);
  CHECK(waits.count() == 0);
  subject.check_read();
}

TEST_CASE("slot_arena: growth into a block that it has waits for the stream of a truncation") {
  arena_in_use subject{2};
  subject.arena.truncate(0, granule(), subject.reader);
  subject.arena.commit(sizes{0}, sizes{granule() + 10}, subject.other);
  CHECK_FALSE(subject.other.is_done());
  subject.check_read();
  subject.other.synchronize();
}

TEST_CASE("slot_arena: two truncations in two streams are both waited for") {
  arena_in_use subject{2};
  subject.arena.truncate(0, granule() + 1, subject.reader);
  subject.arena.truncate(0, 1, subject.other);
  subject.arena.release(0, subject.other);
  const calls_of waits{waiting_functions};
  const stream third{first_device};
  subject.arena.commit(sizes{0}, sizes{granule()}, third);
  fill_async(third, subject.arena.pointer(0), 0x17, granule());
  CHECK(waits.count() == 0);
  subject.check_read();
  third.synchronize();
}

TEST_CASE("slot_arena: destruction does not wait") {
  arena_in_use subject{2};
  const calls_of waits{waiting_functions};
  const call_counter unmaps{"hipMemUnmap"};
  { const slot_arena ended{std::move(subject.arena)}; }
  CHECK(unmaps.count() == 0);
  subject.check_read();
  drain_retired_memory();
  CHECK(unmaps.count() == 4);
}

TEST_CASE("slot_arena: a stream that is captured is refused where it must be waited for") {
  slot_arena arena{first_device, small_slots()};
  const stream captured{first_device};
  arena.commit(sizes{0}, sizes{10}, captured);
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  CHECK_THROWS_WITH_AS(arena.release(0, captured), doctest::Contains("captured into a graph"),
                       std::invalid_argument);
  CHECK_THROWS_AS(arena.truncate(0, 5, captured), std::invalid_argument);
  CHECK_NOTHROW(arena.commit(sizes{0}, sizes{granule()}, captured));
  end_capture(captured.get());
  CHECK(arena.in_use(0));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
