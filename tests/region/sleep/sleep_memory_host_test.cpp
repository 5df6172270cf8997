// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "runtime/host/free_host_memory.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_test.hpp"

// Sleep if the host has no memory.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Whether the call meets the failure of its nth allocation.
template <typename Call>
bool fails(std::uint64_t nth, Call call) {
  const allocation_failure failure{nth};
  try {
    call();
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const hip_error&) {
    return true;
  }
  return failure.struck();
}

void sweep_memory(const suspend_options& options) {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process without memory");
  error_recorder reported;
  const memory_tag tag;
  const hipvmm::stream stream{first_device};
  // Some of it in pages that are registered.
  const std::size_t unit = align_up(std::size_t{9} * MiB, granule());
  region chunks{first_device, unit, tagged(tag)};
  chunks.commit(0, unit);
  write_tag(chunks, 0, 1, stream);
  constexpr std::uint64_t most = 1000;
  // The allocations of suspend() first, and then those of resume().
  for (const bool wakes : {false, true}) {
    for (std::uint64_t nth = 1;; ++nth) {
      INFO("allocation " << nth << (wakes ? " of resume" : " of suspend"));
      if (wakes) suspend(tag, keep::contents, options);
      const bool struck = fails(nth, [&] {
        static_cast<void>(wakes ? resume(tag) : suspend(tag, keep::contents, options));
      });
      if (tag.is_asleep()) resume(tag);
      CHECK(tag.statistics().bytes_on_host == 0);
      CHECK(tag.statistics().bytes_on_disk == 0);
      CHECK(has_tag(chunks, 0, 1, stream));
      if (!struck) break;
      REQUIRE(nth + 1 < most);
    }
  }
}

TEST_CASE("sleep: without memory of the host all stays as it is, with pinned memory") {
  sweep_memory({});
}

TEST_CASE("prepare_suspend: without memory of the host all stays as it is") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process without memory");
  const memory_tag tag;
  const std::size_t unit = align_up(std::size_t{9} * MiB, granule());
  region chunks{first_device, unit, tagged(tag)};
  chunks.commit(0, unit);
  for (std::uint64_t nth = 1; nth < 1000; ++nth) {
    INFO("allocation " << nth);
    const bool struck =
        fails(nth, [&] { static_cast<void>(prepare_suspend(tag, keep::contents)); });
    const std::size_t there = tag.statistics().bytes_on_host;
    if (!struck) {
      CHECK(there == unit);
      return;
    }
    CHECK((there == 0 || there == unit));
    prepare_suspend(tag, keep::nothing);
  }
  FAIL("the call allocates without end");
}

TEST_CASE("sleep: without memory of the host all stays as it is, with pageable memory") {
  sweep_memory({sleep_storage::pageable, {}, {}});
}

TEST_CASE("sleep: without memory of the host all stays as it is, with files") {
  sweep_memory({sleep_storage::file, {}, "/dev/shm"});
}

TEST_CASE("sleep: resume frees what it has copied and goes on after a failure") {
  const std::size_t unit = 32 * MiB;
  memory_tag tag;
  const hipvmm::stream stream{first_device};
  region region{first_device, 5 * unit, tagged(tag)};
  // A chunk over two blocks of the host, and two chunks in one.
  region.commit(0, 3 * unit);
  for (const std::size_t i : {3U, 4U}) region.commit(i * unit, unit);
  for (std::size_t i = 0; i < 5; ++i) fill_async(stream, advance(region.base(), i * unit), 7, unit);
  suspend_options options;
  SUBCASE("pinned") {}
  SUBCASE("pageable") { options.storage = sleep_storage::pageable; }
  suspend(tag, keep::contents, options);
  CHECK(tag.statistics().bytes_on_host == 5 * unit);
  const std::size_t asleep = first_device.free_memory();
  {
    // The first block of 64 MiB has two copies, in a stream each; the third wait is of the next.
    const planned_fault fault{"hipStreamSynchronize", 3, hipErrorUnknown};
    CHECK_THROWS_WITH_AS(resume(tag), doctest::Contains("resume() goes on"), hip_error);
  }
  CHECK(tag.is_asleep());
  CHECK(tag.statistics().bytes_on_host == 3 * unit);
  CHECK(first_device.free_memory() + 5 * unit <= asleep);
  CHECK(resume(tag) == 5 * unit);
  CHECK(tag.statistics().bytes_on_host == 0);
  std::vector<unsigned char> found(5 * unit);
  copy(stream, found.data(), region.base(), found.size());
  CHECK(found == std::vector<unsigned char>(5 * unit, 7));
}

TEST_CASE("sleep: resume copies one block of pinned memory at a time, which it frees") {
  const std::size_t unit = 32 * MiB;
  const memory_tag tag;
  const hipvmm::stream stream{first_device};
  region region{first_device, 5 * unit, tagged(tag)};
  for (std::size_t i = 0; i < 5; ++i) region.commit(i * unit, unit);
  write_tags(region, 0, 5, 1, stream);
  sleep_storage where = sleep_storage::pinned;
  std::uint64_t at_a_time = 2;
  SUBCASE("freed") {}
  SUBCASE("kept") {
    where = sleep_storage::pinned_kept;
    at_a_time = 5;
  }
  suspend(tag, keep::contents, stream, where);
  {
    const call_counter copies{"hipMemcpyAsync"};
    const call_counter maps{"hipMemMap"};
    held_streams held;
    std::thread other{[&] { resume(tag); }};
    CHECK(comes_true([&] { return maps.count() == 5 && copies.count() >= at_a_time; }));
    CHECK(copies.count() == at_a_time);
    held.release();
    other.join();
    CHECK(copies.count() == 5);
  }
  CHECK(tag.statistics().bytes_on_host == (where == sleep_storage::pinned ? 0 : 5 * unit));
  check_tags(region, 0, 5, 1, stream);
}

TEST_CASE("sleep: contents are in pages that are registered, or where HIP refuses in others") {
  const std::size_t unit = 32 * MiB;
  if (detail::free_host_memory() / 8 < 2 * unit) return;
  const memory_tag tag;
  const hipvmm::stream stream{first_device};
  region region{first_device, 5 * unit, tagged(tag)};
  // Blocks of 64 MiB, 64 MiB and 32 MiB.
  for (std::size_t i = 0; i < 5; ++i) region.commit(i * unit, unit);
  write_tags(region, 0, 5, 1, stream);
  for (std::uint64_t refused = 0; refused <= 4; ++refused) {
    const hipvmm_host_counters before = live_objects();
    const call_counter registered{"hipHostRegister"};
    const call_counter allocated{"hipHostMalloc"};
    {
      const planned_fault fault{"hipHostRegister", refused == 0 ? 1000 : refused,
                                hipErrorNotSupported};
      CHECK(suspend(tag, keep::contents) == 5 * unit);
    }
    CHECK(registered.count() == 3);
    CHECK(allocated.count() == (refused >= 1 && refused <= 3 ? 1 : 0));
    CHECK(tag.statistics().bytes_on_host == 5 * unit);
    CHECK(resume(tag) == 5 * unit);
    CHECK(live_objects().registrations == before.registrations);
    CHECK(live_objects().host_allocations == before.host_allocations);
    check_tags(region, 0, 5, 1, stream);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
