// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/host/host_test.hpp"

// A call that fails, and whose undoing fails too: the owner of the memory refuses it or has it, and
// loses nothing.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// If HIP refused to release something, its counters say so for ever.
bool lost_objects(const error_recorder& reported) {
  const auto errors = reported.errors();
  return std::any_of(errors.begin(), errors.end(), [](const recorded_error& each) {
    return each.call.find("Destroy") != std::string::npos ||
           each.call.find("Free") != std::string::npos ||
           each.call.find("Unregister") != std::string::npos || each.call == "hipMemRelease" ||
           each.call == "hipMemUnmap";
  });
}

/// Runs `operation` on a new subject with each of its HIP calls failing in turn, and then each one
/// after that. Subject: check() finds the contents, or is refused and finds them once repair() has
/// returned; held_bytes().
template <class Subject>
class pair_sweep {
 public:
  template <class Operation>
  void run(Operation operation) const {
    std::uint64_t first = 1;
    while (strikes(first, std::nullopt, operation)) {
      // One in seven, later one in 19: the next first calls take the others. Up to 120 calls each
      // second one is met so but 2, 4 and 6, and from the 23rd on after at least three first ones.
      const std::uint64_t step = first <= 21 ? 7 : 19;
      std::uint64_t second = first + 1 + first % step;
      while (strikes(second, first, operation)) second += step;
      ++first;
    }
    CHECK(first > 2);
  }

 private:
  template <class Operation>
  bool strikes(std::uint64_t last, std::optional<std::uint64_t> first, Operation operation) const {
    CAPTURE(last);
    CAPTURE(first.value_or(0));
    release_idle_memory();
    const hipvmm_host_counters outside = live_objects();
    const std::size_t used_outside = hipvmm_host_device_bytes(0);
    error_recorder reported;
    bool struck = false;
    {
      Subject subject;
      {
        std::optional<planned_faults> before;
        if (first)
          before.emplace("any nth=" + std::to_string(*first) + " error=hipErrorOperatingSystem");
        planned_fault fault{nullptr, last, hipErrorOutOfMemory};
        try {
          operation(subject);
        } catch (const std::exception&) {
        }
        drain_retired_memory();
        struck = fault.end();
      }
      static_cast<void>(hipGetLastError());
      REQUIRE(hipSetDevice(0) == hipSuccess);
      subject.check();
      release_idle_memory();
      // If memory returns with its addresses only, a refused renewal leaves it to the next one.
      if (!lost_objects(reported) && !capability_of(first_device).needs(quirk::re_reserve))
        // A thread of the library may be unmapping memory that no longer counts.
        CHECK(comes_true(
            [&] { return hipvmm_host_device_bytes(0) - used_outside == subject.held_bytes(); }));
    }
    release_idle_memory();
    if (!lost_objects(reported)) CHECK(live_objects() == outside);
    return struck;
  }
};

template <class Use>
void require_refusal(Use use) {
  CHECK_THROWS_WITH_AS(use(), doctest::Contains("resume()"), std::logic_error);
}

struct torn_vector {
  memory_tag tag{"t"};
  hipvmm::stream stream{first_device};
  growable_device_vector<char> vector{
      first_device, [this] {
        return growth_options{.step_limit = 0, .granule_bytes = granule(), .chunks = {.tag = tag}};
      }()};
  torn_vector() {
    vector.resize(granule(), 1, stream);
    vector.resize(2 * granule() + 1, 2, stream);
    stream.synchronize();
  }
  void check() {
    if (tag.is_asleep()) {
      require_refusal([&] { static_cast<void>(vector.copy_to_host(stream)); });
      require_refusal([&] { vector.resize(vector.size() + 1, 3, stream); });
      resume(tag);
    }
    const std::vector<char> found = vector.copy_to_host(stream);
    REQUIRE(found.size() == 2 * granule() + 1);
    CHECK(found[0] == 1);
    CHECK(found[granule() - 1] == 1);
    CHECK(found[granule()] == 2);
    CHECK(found[2 * granule()] == 2);
  }
  [[nodiscard]] std::size_t held_bytes() const { return vector.capacity(); }
};

/// Chunks of two sizes, of which the vector keeps the last.
struct torn_queue {
  hipvmm::stream stream{first_device};
  growable_device_vector<char> vector{
      first_device, [] { return growth_options{.step_limit = 0, .granule_bytes = granule()}; }()};
  torn_queue() {
    for (const std::size_t granules : {1, 3, 4, 6})
      vector.resize(granules * granule(), static_cast<char>(granules), stream);
    stream.synchronize();
  }
  void erase() { vector.erase_front(4 * granule(), stream); }
  void check() {
    const std::vector<char> found = vector.copy_to_host(stream);
    REQUIRE(found.back() == 6);
    if (found.size() == 2 * granule()) return;
    REQUIRE(found.size() == 6 * granule());
    for (const std::size_t granules : {1, 3, 4})
      CHECK(found[granules * granule() - 1] == static_cast<char>(granules));
  }
  [[nodiscard]] std::size_t held_bytes() const { return vector.capacity(); }
};

struct torn_pool {
  memory_tag tag{"t"};
  hipvmm::stream stream{first_device};
  mr::vmm_pool_resource pool{
      first_device,
      mr::pool_options{.maximum_bytes = 8 * granule(), .largest_chunk = granule(), .tag = tag}};
  void* blocks[3];
  torn_pool() {
    for (void*& each : blocks) {
      each = pool.allocate(stream, granule());
      write_bytes(stream, each, pattern(64, 7));
    }
    pool.deallocate(stream, blocks[1], granule());
    stream.synchronize();
  }
  ~torn_pool() {
    pool.deallocate(stream, blocks[0], granule());
    pool.deallocate(stream, blocks[2], granule());
  }
  void check() {
    if (tag.is_asleep()) {
      require_refusal([&] { static_cast<void>(pool.allocate(stream, 256)); });
      resume(tag);
    }
    CHECK(read_bytes(stream, blocks[0], 64) == pattern(64, 7));
    CHECK(read_bytes(stream, blocks[2], 64) == pattern(64, 7));
    for (int i = 0; i < 2; ++i) {
      void* const fresh = pool.allocate(stream, 2 * granule());
      fill_async(stream, fresh, 9, 2 * granule());
      pool.deallocate(stream, fresh, 2 * granule());
    }
    stream.synchronize();
    pool.trim_to(0);
  }
  [[nodiscard]] std::size_t held_bytes() const { return pool.statistics().reserved_current; }
};

struct torn_arena {
  memory_tag tag{"t"};
  hipvmm::stream stream{first_device};
  slot_arena arena{first_device, [this] {
                     slot_arena_options options = small_slots();
                     options.tag = tag;
                     return options;
                   }()};
  bool shares = !capability_of(first_device).needs(quirk::no_aliases);
  torn_arena() {
    arena.commit(sizes{0, 1}, sizes{granule(), 64}, stream);
    write_end(arena, 0, 64, 1, stream);
    write_end(arena, 1, 64, 3, stream);
    if (shares) arena.share_prefix(0, {2}, granule(), stream);
    stream.synchronize();
  }
  void check() {
    const auto commit = [&] { arena.commit(sizes{1}, sizes{64}, stream); };
    if (tag.is_asleep()) {
      require_refusal(commit);
      resume(tag);
    }
    commit();  // maps the unmapped chunks again
    CHECK(has_end(arena, 0, 64, 1, stream));
    CHECK(has_end(arena, 1, 64, 3, stream));
    if (shares) CHECK(has_end(arena, 2, 64, 1, stream));
    arena.trim();
  }
  [[nodiscard]] std::size_t held_bytes() { return arena.statistics().held_bytes; }
};

/// A trim may have left rows unmapped that another slot gets.
struct trimmed_arena : torn_arena {
  void check() {
    arena.commit(sizes{3}, sizes{3 * granule()}, stream);
    for (std::size_t plane = 0; plane < arena.planes(); ++plane)
      for (std::size_t at = 0; at < 3 * granule(); at += granule())
        write_bytes(stream, advance(arena.pointer(3, plane), at), pattern(64, 5));
    arena.release(3, stream);
    stream.synchronize();
    torn_arena::check();
  }
};

template <class Subject>
void sweep_sleep(keep what) {
  pair_sweep<Subject>{}.run([what](Subject& subject) {
    suspend(subject.tag, what);
    if (what == keep::contents) resume(subject.tag);
  });
}

// Each in a process of its own: memory that HIP keeps, and the byte that a wait allocates,
// would be lacking to all cases that come after.

HIPVMM_TEST_CASE_IN("torn memory: two failures in a vector's sleep", with_small_chunks()) {
  sweep_sleep<torn_vector>(keep::contents);
}

HIPVMM_TEST_CASE_IN("torn memory: two failures in a pool's sleep", with_small_chunks()) {
  sweep_sleep<torn_pool>(keep::contents);
}

HIPVMM_TEST_CASE_IN("torn memory: two failures in an arena's sleep", with_small_chunks()) {
  sweep_sleep<torn_arena>(keep::contents);
}

TEST_CASE("torn memory: a suspend that cannot be undone names the bytes, and resume undoes it") {
  const error_recorder reported;
  torn_vector subject;
  {
    const planned_faults plan{
        "hipMemUnmap nth=2 error=hipErrorUnknown; hipMemMap error=hipErrorUnknown"};
    const auto names_bytes = doctest::Contains("B of the region at ");
    CHECK_THROWS_WITH_AS(suspend(subject.tag, keep::nothing), names_bytes, hip_error);
    CHECK(subject.tag.phase() == tag_phase::asleep);
    CHECK_THROWS_WITH_AS(resume(subject.tag), names_bytes, hip_error);
    CHECK_THROWS_WITH_AS(suspend(subject.tag, keep::nothing), names_bytes, hip_error);
    // Its cause, once.
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors().front().call == "hipMemUnmap");
  }
  SUBCASE("by resume") { CHECK(resume(subject.tag) != 0); }
  SUBCASE("by another suspend, which goes on") { CHECK(suspend(subject.tag, keep::contents) != 0); }
  subject.check();
}

HIPVMM_TEST_CASE_IN("torn memory: two failures in a vector that shrinks", with_small_chunks()) {
  pair_sweep<torn_vector>{}.run(
      [](torn_vector& subject) { subject.vector.shrink_to_fit(subject.stream); });
}

HIPVMM_TEST_CASE_IN("torn memory: two failures in a vector that lets its front go",
                    with_small_chunks()) {
  pair_sweep<torn_queue>{}.run([](torn_queue& subject) { subject.erase(); });
}

HIPVMM_TEST_CASE_IN("torn memory: two failures in an arena's trim", with_small_chunks()) {
  pair_sweep<trimmed_arena>{}.run([](trimmed_arena& subject) {
    subject.arena.commit(sizes{3}, sizes{3 * granule()}, subject.stream);
    subject.arena.release(3, subject.stream);
    subject.stream.synchronize();
    subject.arena.trim();
  });
}

HIPVMM_TEST_CASE_IN("torn memory: two failures when a copy on write replaces chunks",
                    with_small_chunks()) {
  if (!torn_arena{}.shares) return;
  pair_sweep<torn_arena>{}.run(
      [](torn_arena& subject) { subject.arena.make_writable(2, 0, granule(), subject.stream); });
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
