// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/host/host_test.hpp"
#include "support/region/assumed_capability.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t piece = 64;
// Memory of a failed release is lost to the process, and other tests fill the first device.
constexpr device_ref losing_device{1};

/// Slot 0 has two blocks and a half; 1 and 2 show them. Of each block the first bytes are known.
struct shared_arena {
  hipvmm::stream stream;
  std::size_t bytes = 2 * granule() + granule() / 2;
  slot_arena arena;

  explicit shared_arena(const slot_arena_options& options = small_slots(), bool shares = true,
                        device_ref device = first_device)
      : stream{device}, arena{device, options} {
    arena.commit(sizes{0}, sizes{bytes}, stream);
    write(0, 1);
    if (shares) arena.share_prefix(0, sizes{1, 2}, bytes, stream);
  }
  void write(std::size_t slot, std::uint32_t seed) {
    for_each_piece(slot, [&](void* at, std::uint32_t number) {
      write_bytes(stream, at, pattern(piece, seed + number));
    });
  }
  [[nodiscard]] bool has(std::size_t slot, std::uint32_t seed = 1) const {
    bool all = true;
    for_each_piece(slot, [&](void* at, std::uint32_t number) {
      all = all && read_bytes(stream, at, piece) == pattern(piece, seed + number);
    });
    return all;
  }

 private:
  template <typename Visit>
  void for_each_piece(std::size_t slot, Visit visit) const {
    std::uint32_t number = 0;
    for (std::size_t plane = 0; plane < arena.planes(); ++plane)
      for (std::size_t at = 0; at < bytes; at += granule())
        visit(advance(arena.pointer(slot, plane), at), number++);
  }
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(shared_arena, "slot_arena: a prefix is shared, and its rest copied") {
  CHECK(has(1));
  CHECK(has(2));
  CHECK(arena.length(1) == bytes);
  const slot_arena_statistics now = arena.statistics();
  CHECK(now.held_bytes == 5 * row());
  CHECK(now.needed_bytes == 5 * row());
  CHECK(now.shared_bytes == 4 * row());
  CHECK(now.used_bytes == 6 * bytes);
  CHECK(get_access(arena.pointer(1, 1), first_device) == access_right::read);
  CHECK(get_access(arena.pointer(0, 1), first_device) == access_right::read_write);
  // Each goes on by itself.
  arena.commit(sizes{1}, sizes{3 * granule() + 5}, stream);
  write_end(arena, 1, granule() / 2 + 5, 5, stream);
  CHECK(has(2));
  CHECK(has(0));
}

TEST_CASE("slot_arena: a shared prefix outlives the slot that it came from") {
  const error_recorder reported;
  shared_arena subject;
  subject.arena.release(0, subject.stream);
  subject.stream.synchronize();
  CHECK(subject.arena.capacity(0) == 0);
  subject.arena.commit(sizes{0}, sizes{subject.bytes}, subject.stream);
  subject.write(0, 9);
  CHECK(subject.has(1));
  subject.arena.release(1, subject.stream);
  subject.arena.commit(sizes{1}, sizes{subject.bytes}, subject.stream);
  subject.write(1, 20);
  CHECK(subject.has(2));
  CHECK(subject.has(0, 9));
  subject.arena.release(2, subject.stream);
  subject.stream.synchronize();
  subject.arena.trim();
  CHECK(subject.arena.statistics().shared_bytes == 0);
  CHECK(held_unpinned(subject.arena.statistics()) == 6 * row());
  // Nothing is released twice.
  CHECK(reported.count() == 0);
}

TEST_CASE_FIXTURE(shared_arena, "slot_arena: a slot writes to blocks of its own") {
  arena.make_writable(1, granule() + 7, 1, stream);
  CHECK(has(1));
  CHECK(arena.statistics().held_bytes == 6 * row());
  CHECK(arena.statistics().shared_bytes == 3 * row());
  fill_async(stream, advance(arena.pointer(1), granule()), 0x33, granule());
  stream.synchronize();
  CHECK(has(0));
  CHECK(has(2));
  CHECK(read_bytes(stream, arena.pointer(1), piece) == pattern(piece, 1));
  // A block that is private already costs nothing.
  const std::uint64_t creations = hipvmm_host_call_count("hipMemCreate");
  arena.make_writable(1, granule(), granule() + 1, stream);
  CHECK(hipvmm_host_call_count("hipMemCreate") == creations);
  // The last one that shows a block gets it without a copy.
  arena.release(0, stream);
  arena.release(2, stream);
  stream.synchronize();
  arena.trim();
  CHECK(arena.statistics().shared_bytes == 0);
  CHECK(get_access(arena.pointer(1), first_device) == access_right::read);
  const calls_of copies{copying_functions};
  arena.make_writable(1, 0, 1, stream);
  CHECK(copies.count() == 0);
  CHECK(get_access(arena.pointer(1), first_device) == access_right::read_write);
}

TEST_CASE("slot_arena: copies for writing keep to the budget") {
  shared_arena subject{small_slots(4, 6 * row())};
  CHECK_THROWS_AS(subject.arena.make_writable(1, 0, 2 * granule(), subject.stream), out_of_memory);
  CHECK(subject.has(1));
  CHECK(subject.arena.statistics().shared_bytes == 4 * row());
  CHECK_NOTHROW(subject.arena.make_writable(1, 0, 1, subject.stream));
  CHECK(subject.arena.statistics().held_bytes == 6 * row());
}

TEST_CASE("slot_arena: sharing is refused where it cannot be, and for slots with bytes") {
  const stream stream{first_device};
  slot_arena_options options = small_slots();
  {
    const assumed_capability without{"coherent_aliases=no"};
    slot_arena arena{first_device, options};
    arena.commit(sizes{0}, sizes{100}, stream);
    CHECK_THROWS_WITH_AS(arena.share_prefix(0, sizes{1}, 100, stream),
                         doctest::Contains("does not show the same bytes at two addresses"),
                         unsupported);
  }
  slot_arena arena{first_device, options};
  arena.commit(sizes{0, 1}, sizes{100, 1}, stream);
  CHECK_THROWS_WITH_AS(arena.share_prefix(0, sizes{2, 1}, 100, stream),
                       doctest::Contains("slot 1 has bytes already"), std::invalid_argument);
  CHECK_THROWS_AS(arena.share_prefix(0, sizes{2, 2}, 100, stream), std::invalid_argument);
  CHECK_THROWS_AS(arena.share_prefix(0, sizes{0}, 100, stream), std::invalid_argument);
  CHECK_THROWS_AS(arena.share_prefix(0, sizes{2}, 101, stream), std::invalid_argument);
  CHECK_THROWS_AS(arena.share_prefix(3, sizes{2}, 0, stream), std::invalid_argument);
  CHECK_THROWS_AS(arena.make_writable(0, 0, 101, stream), std::out_of_range);
  CHECK_FALSE(arena.in_use(2));
  options.layout = slot_layout::packed;
  slot_arena packed{first_device, options};
  packed.commit(sizes{0}, sizes{100}, stream);
  options.bytes_per_slot = granule() / 2;
  slot_arena small{first_device, options};
  small.commit(sizes{0}, sizes{100}, stream);
  CHECK_THROWS_WITH_AS(small.share_prefix(0, sizes{1}, 100, stream),
                       doctest::Contains("slot_layout::packed"), unsupported);
}

TEST_CASE("slot_arena: an arena shares by the record that its region was made with") {
  const stream stream{first_device};
  for (const bool shares : {false, true}) {
    CAPTURE(shares);
    std::optional<assumed_capability> assumed;
    if (!shares) assumed.emplace("coherent_aliases=no");
    slot_arena arena{first_device, small_slots()};
    arena.commit(sizes{0}, sizes{100}, stream);
    // Probed again, with the other result.
    if (shares)
      assumed.emplace("coherent_aliases=no");
    else
      assumed.reset();
    if (shares)
      CHECK_NOTHROW(arena.share_prefix(0, sizes{1}, 100, stream));
    else
      CHECK_THROWS_AS(arena.share_prefix(0, sizes{1}, 100, stream), unsupported);
  }
}

TEST_CASE("slot_arena: a prefix that cannot be shared leaves the slots free") {
  const auto make = [] {
    return std::make_unique<shared_arena>(small_slots(), false, losing_device);
  };
  fault_sweep{"share_prefix", nothing_but_pinned()}.run(
      make,
      [](auto& subject) {
        subject.arena.share_prefix(0, sizes{1, 3}, subject.bytes, subject.stream);
      },
      [](auto& subject) {
        CHECK_FALSE(subject.arena.in_use(1));
        CHECK_FALSE(subject.arena.in_use(3));
        CHECK(subject.has(0));
        CHECK(held_unpinned(subject.arena.statistics()) == 3 * row());
      },
      [](auto& subject) {
        CHECK(subject.has(1));
        CHECK(subject.has(3));
      });
}

TEST_CASE("slot_arena: a copy for writing that fails leaves the bytes") {
  fault_sweep{"make_writable", after_failure::capacity}.run(
      [] {
        slot_arena_options options = small_slots();
        options.planes = 1;
        return std::make_unique<shared_arena>(options, true, losing_device);
      },
      [](auto& subject) { subject.arena.make_writable(1, 0, 1, subject.stream); },
      [](auto& subject) {
        CHECK(subject.has(0));
        CHECK(subject.has(1));
        CHECK(subject.has(2));
        const slot_arena_statistics now = subject.arena.statistics();
        CHECK(now.held_bytes == now.needed_bytes + now.spare_bytes + now.kept_bytes);
      },
      [](auto& subject) {
        CHECK(subject.has(1));
        CHECK(subject.has(2));
        CHECK(subject.arena.statistics().shared_bytes == 3 * granule());
      });
}

TEST_CASE("slot_arena: memory of a prefix is used again when its last slot has left it") {
  slot_arena_options options = small_slots(2, 6 * row());
  const hipvmm::stream stream{first_device};
  slot_arena arena{first_device, options};
  std::optional<call_counter> creations;
  for (int round = 0; round < 6; ++round) {
    if (round == 2) creations.emplace("hipMemCreate");
    arena.commit(sizes{0}, sizes{2 * granule() + 1}, stream);
    arena.share_prefix(0, sizes{1}, 2 * granule() + 1, stream);
    arena.release(0, stream);
    arena.release(1, stream);
    stream.synchronize();
  }
  CHECK(arena.statistics().held_bytes <= options.budget_bytes);
  CHECK(creations->count() == 0);
}

TEST_CASE("slot_arena: a commit maps what a failed copy could not map again") {
  slot_arena_options options = small_slots();
  options.planes = 1;
  shared_arena subject{options};
  const error_recorder reported;
  {
    // The new block at other addresses, in place of the old one, and the old one again, twice.
    const planned_faults faults{
        "hipMemMap nth=2 error=hipErrorOperatingSystem; "
        "hipMemMap nth=3 error=hipErrorOperatingSystem; "
        "hipMemMap nth=4 error=hipErrorOperatingSystem"};
    CHECK_THROWS_AS(subject.arena.make_writable(1, 0, 1, subject.stream), hip_error);
  }
  char byte = 0;
  CHECK(hipMemcpy(&byte, subject.arena.pointer(1), 1, hipMemcpyDeviceToHost) != hipSuccess);
  static_cast<void>(hipGetLastError());
  subject.arena.commit(sizes{1}, sizes{subject.bytes}, subject.stream);
  CHECK(subject.has(1));
  CHECK(subject.has(2));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
