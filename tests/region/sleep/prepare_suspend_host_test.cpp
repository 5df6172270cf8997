// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include "container/slot_arena/arenas.hpp"
#include "mr/pool/pool_limit.hpp"
#include "region/region_test.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/host/host_test.hpp"

// Memory of the host that is pinned before suspend() needs it.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Calls that make or pin memory of the host since this was made.
struct pins {
  call_counter allocated{"hipHostMalloc"};
  call_counter registered{"hipHostRegister"};
  [[nodiscard]] std::uint64_t count() const { return allocated.count() + registered.count(); }
};

TEST_CASE("prepare_suspend: suspend of an arena, a vector and a pool makes and pins nothing") {
  const memory_tag tag{"server"};
  const stream stream{first_device};
  slot_arena_options slots = small_slots();
  slots.tag = tag;
  slots.prefetch_blocks = 1;
  slot_arena arena{first_device, slots};
  arena.commit(sizes{0, 1}, sizes{granule() / 2, 2 * granule()}, stream);
  for (const std::size_t slot : {0U, 1U}) write_end(arena, slot, 64, 1, stream);
  growable_device_vector<int> vector{first_device, {.max_bytes = 64 * MiB, .chunks = {.tag = tag}}};
  vector.append({1, 2, 3}, stream);
  mr::pool_options options = at_most(64 * MiB);
  options.tag = tag;
  mr::vmm_pool_resource pool{first_device, options};
  // In pages that are registered.
  constexpr std::size_t bytes = 9 * MiB;
  void* const block = pool.allocate(stream, bytes);
  void* const freed = pool.allocate(stream, 1000);
  pool.deallocate(stream, freed, 1000);
  fill_async(stream, block, 7, bytes);

  const hipvmm_host_counters before = live_objects();
  // The arena may be prefetching during the first call.
  const std::size_t first = prepare_suspend(tag, keep::contents);
  CHECK(first >= bytes + vector.capacity() * sizeof(int) + 3 * row());
  CHECK(tag.statistics().bytes_on_host == first);
  CHECK(tag.phase() == tag_phase::awake);
  const std::size_t prepared = prepare_suspend(tag, keep::contents);
  CHECK(prepared >= first);
  for (const sleep_storage where : {sleep_storage::pinned_kept, sleep_storage::pinned}) {
    const pins made;
    CHECK(suspend(tag, keep::contents, stream, where) != 0);
    CHECK(made.count() == 0);
    CHECK(tag.statistics().bytes_on_host == prepared);
    resume(tag);
  }
  CHECK(tag.statistics().bytes_on_host == 0);
  CHECK(live_objects().host_allocations == before.host_allocations);
  CHECK(live_objects().registrations == before.registrations);
  for (const std::size_t slot : {0U, 1U}) CHECK(has_end(arena, slot, 64, 1, stream));
  CHECK(vector.copy_to_host(stream) == std::vector<int>{1, 2, 3});
  CHECK(read_bytes(stream, block, bytes) == std::vector<unsigned char>(bytes, 7));
  pool.deallocate(stream, block, bytes);
}

TEST_CASE_FIXTURE(sleeping_regions, "prepare_suspend: memory that grows gets the difference") {
  CHECK(prepare_suspend(tag, keep::contents) == 4 * unit);
  second.commit(unit, unit);
  write_tag(second, 1, 3, stream);
  std::optional<region> third{std::in_place, first_device, unit, tagged(tag)};
  third->commit(0, unit);
  const auto one_each = [] {
    const pins made;
    return [made] { return made.count(); };
  };
  SUBCASE("of another call") {
    const auto calls = one_each();
    CHECK(prepare_suspend(tag, keep::contents) == 6 * unit);
    CHECK(calls() == 2);
  }
  SUBCASE("of suspend") {}
  const auto calls = one_each();
  const bool is_whole = tag.statistics().bytes_on_host == 6 * unit;
  CHECK(suspend(tag, keep::contents, stream, sleep_storage::pinned_kept) == 6 * unit);
  CHECK(calls() == (is_whole ? 0 : 2));
  CHECK(tag.statistics().bytes_on_host == 6 * unit);
  resume(tag);
  CHECK(has_contents());
  CHECK(has_tag(second, 1, 3, stream));
  // It ends with the memory that it is for, and the rest of it by the next call.
  third.reset();
  CHECK(tag.statistics().bytes_on_host == 5 * unit);
  second.decommit(unit, unit);
  CHECK(prepare_suspend(tag, keep::contents) == 4 * unit);
  CHECK(tag.statistics().bytes_on_host == 4 * unit);
}

TEST_CASE_FIXTURE(sleeping_regions, "prepare_suspend: suspend that fails leaves it, and all end") {
  const hipvmm_host_counters before = live_objects();
  suspend_options options;
  SUBCASE("pinned") {}
  SUBCASE("kept") { options.storage = sleep_storage::pinned_kept; }
  SUBCASE("in a file") {
    options.storage = sleep_storage::file;
    options.folder = "/dev/shm";
  }
  prepare_suspend(tag, keep::contents);
  second.commit(unit, unit);
  {
    const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
    CHECK_THROWS_AS(suspend(tag, keep::contents, options), hip_error);
  }
  CHECK(tag.statistics().bytes_on_host == 4 * unit);
  const pins made;
  CHECK(prepare_suspend(tag, keep::nothing) == 0);
  CHECK(made.count() == 0);
  second.decommit(unit, unit);
  check_awake();
  CHECK(live_objects().host_allocations == before.host_allocations);
}

TEST_CASE_FIXTURE(sleeping_regions,
                  "prepare_suspend: dropped, zero and mapped parts take none; refusals") {
  const void* const stays = advance(base, 4 * unit);
  suspend_options options{.ranges = {{base, unit, keep::zeros},
                                     {advance(base, unit), unit / 2, keep::nothing},
                                     {stays, unit, keep::mapped}}};
  CHECK(prepare_suspend(tag, keep::contents, options) == unit + unit / 2);
  CHECK(prepare_suspend(tag, keep::zeros) == 0);
  {
    const planned_fault fault{"hipHostMalloc", 1, hipErrorOutOfMemory};
    const std::string text = format_bytes(4 * unit) + " of the host were to be pinned for the tag";
    CHECK_THROWS_WITH_AS(prepare_suspend(tag, keep::contents), doctest::Contains(text.c_str()),
                         out_of_memory);
  }
  options.ranges = {{&options, 1, keep::zeros}};
  CHECK_THROWS_AS(prepare_suspend(tag, keep::contents, options), std::invalid_argument);
  for (const sleep_storage where : {sleep_storage::pageable, sleep_storage::file})
    CHECK_THROWS_WITH_AS(prepare_suspend(tag, keep::contents, {where, {}, "/tmp", {}}),
                         doctest::Contains("only pinned memory"), std::invalid_argument);
  suspend(tag, keep::contents, stream);
  CHECK_THROWS_WITH_AS(prepare_suspend(tag, keep::contents), doctest::Contains("memory sleeps"),
                       std::logic_error);
  resume(tag);
  check_awake();
}

TEST_CASE("prepare_suspend: a call that fails leaves what there was") {
  fault_sweep{"prepare_suspend"}.run(
      [] {
        auto made = std::make_unique<sleeping_regions>();
        made->second.decommit(0, made->unit);
        prepare_suspend(made->tag, keep::contents);
        made->second.commit(0, made->unit);
        write_tag(made->second, 0, 2, made->stream);
        return made;
      },
      [](auto& subject) { prepare_suspend(subject.tag, keep::contents); },
      [](auto& subject) {
        CHECK(subject.tag.statistics().bytes_on_host == 3 * subject.unit);
        CHECK(subject.has_contents());
      },
      [](auto& subject) {
        CHECK(subject.tag.statistics().bytes_on_host == 4 * subject.unit);
        suspend(subject.tag, keep::contents, subject.stream);
        resume(subject.tag);
        subject.check_awake();
      });
}

/// While a pool backs a request it lets another thread look for an address in all of the tag.
class looking_registrar final : public memory_registrar {
 public:
  explicit looking_registrar(const memory_tag& tag) : tag_{tag} {}
  void add(const mapped_memory&) override {
    look = std::async(std::launch::async, [this] {
      const suspend_options parts{.ranges = {{&parts, 1, keep::zeros}}};
      CHECK_THROWS_AS(prepare_suspend(tag_, keep::contents, parts), std::invalid_argument);
    });
    waited = look.wait_for(std::chrono::milliseconds{20}) == std::future_status::timeout;
  }
  void remove(const mapped_memory&) noexcept override {}

  std::future<void> look;
  bool waited = false;

 private:
  memory_tag tag_;
};

TEST_CASE("prepare_suspend: reads the addresses of a pool while no other thread may change them") {
  const memory_tag tag;
  const auto registrar = std::make_shared<looking_registrar>(tag);
  mr::pool_options options = at_most(8 * MiB);
  options.tag = tag;
  options.registrar = registrar;
  mr::vmm_pool_resource pool{first_device, options};
  const stream stream{first_device};
  pool.deallocate(stream, pool.allocate(stream, 2 * MiB), 2 * MiB);
  registrar->look.get();
  CHECK(registrar->waited);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
