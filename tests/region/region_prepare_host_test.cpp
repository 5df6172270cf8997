// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/memory_registrar.hpp>
#include "region/chunks/region_chunks.hpp"
#include "region/region_test.hpp"
#include "support/held_worker.hpp"
#include "support/host/host_test.hpp"
#include "support/region/prefetch_levels.hpp"
#include "vmm/idle/idle_memory.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

using detail::wait_for_background_tasks;

/// Lets the background thread start, whose first HIP call a case must not count or fail.
void start_worker() { const held_worker started; }

TEST_CASE_FIXTURE(region_of<16>, "region: a commit that finds its chunk mapped makes no HIP call") {
  region.commit(0, unit);
  region.prepare(2 * unit, prefetch_level::mapped);
  wait_for_background_tasks();
  const std::uint64_t before = hipvmm_host_call_count(nullptr);
  region.commit(unit, 2 * unit);
  CHECK(hipvmm_host_call_count(nullptr) == before);
}

TEST_CASE_FIXTURE(region_of<16>, "region: a commit that finds its chunk created maps it") {
  region.prepare(2 * unit, prefetch_level::created);
  wait_for_background_tasks();
  const std::uint64_t before = hipvmm_host_call_count(nullptr);
  region.commit(0, 2 * unit);
  // If a failing map reports success, the region checks it by a call.
  CHECK(hipvmm_host_call_count(nullptr) == before + under(quirks::map_reports_success, 3U, 2U));
}

TEST_CASE("region: operations wait for a preparation that has begun") {
  const std::size_t unit = granule();
  start_worker();
  const auto begin = [&](region& region) {
    const call_counter maps{"hipMemMap"};
    region.prepare(2 * unit, prefetch_level::mapped);
    while (maps.count() == 0) std::this_thread::yield();
  };
  const planned_faults slow{"hipMemMap delay=5ms"};
  {
    region region{first_device, 16 * unit};
    begin(region);
    CHECK(region.cancel_or_wait() == 2 * unit);
  }
  {
    region region{first_device, 16 * unit};
    begin(region);
    region.commit(0, unit);
    CHECK(region.committed_bytes() == 2 * unit);
  }
  {
    region region{first_device, 16 * unit};
    begin(region);
    region.grant(second_device, access_right::read);
    CHECK(region.prepared_bytes() == 2 * unit);
    region.commit(0, unit);
    CHECK(get_access(region.base(), second_device) == access_right::read);
  }
  {
    region region{first_device, 16 * unit};
    std::map<std::size_t, physical_chunk> overlapping;
    overlapping.try_emplace(4 * unit, first_device, 2 * unit);
    overlapping.try_emplace(5 * unit, first_device, unit);
    begin(region);
    CHECK_THROWS_AS(hipvmm::detail::adopt_chunks(region, overlapping), std::invalid_argument);
    CHECK(region.prepared_bytes() == 2 * unit);
  }
  const hipvmm_host_counters before = live_objects();
  {
    region region{first_device, 16 * unit};
    begin(region);
    region.decommit(0, 16 * unit);
    CHECK(live_objects().handles == before.handles);
    begin(region);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("region: a failed preparation throws in no call and is not repeated") {
  const std::size_t unit = granule();
  start_worker();
  error_recorder reported;
  for (const prefetch_level how : both_ways) {
    region region{first_device, 16 * unit};
    region.commit(0, unit);
    const hipvmm_host_counters before = live_objects();
    const std::size_t kept_before = pinned_chunks_kept();
    for (const char* const function : {"hipMemCreate", "hipMemSetAccess"}) {
      if (how == prefetch_level::created && function == std::string{"hipMemSetAccess"}) continue;
      CAPTURE(function);
      const std::size_t failed = region.failed_preparations();
      {
        const planned_fault fault{function, 1, int{hipErrorOutOfMemory}};
        region.prepare(unit, how);
        wait_for_background_tasks();
        CHECK(fault.struck());
      }
      CHECK(region.failed_preparations() == failed + 1);
      CHECK(region.prepared_bytes() == 0);
      hipvmm_host_counters after = live_objects();
      after.handles -= pinned_chunks_kept() - kept_before;
      CHECK(after == before);
      const call_counter creations{"hipMemCreate"};
      region.prepare(unit, how);
      wait_for_background_tasks();
      CHECK(creations.count() == 0);
      // A commit, even of nothing, allows the next one.
      region.commit(0, unit);
      region.prepare(unit, how);
      CHECK(region.failed_preparations() == failed + 1);
      wait_for_background_tasks();
      CHECK(region.prepared_bytes() == unit);
      region.decommit(unit, unit);
    }
  }
  CHECK(reported.count() == 0);
}

TEST_CASE("region: a prepared chunk that cannot be unmapped is not used again") {
  const std::size_t unit = granule();
  chunk_cache cache{GiB};
  region region{first_device, 16 * unit, {.cache = &cache}};
  region.prepare(2 * unit, prefetch_level::mapped);
  wait_for_background_tasks();
  {
    const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
    CHECK_THROWS_AS(region.decommit(0, 16 * unit), hip_error);
    CHECK(fault.struck());
  }
  CHECK(cache.statistics().chunks == 0);
  region.decommit(0, 16 * unit);
  CHECK(cache.statistics().chunks == 1);
}

HIPVMM_TEST_CASE_IN(
    "region: where tail access fails a larger chunk behind one mapped ahead gets its rights",
    under("rocm-7.1", "tail_access=no,base_access=yes")) {
  const std::size_t unit = granule();
  region region{first_device, 16 * unit};
  region.commit(0, unit);
  region.commit(unit, unit);
  region.prepare(unit, prefetch_level::mapped);
  wait_for_background_tasks();
  REQUIRE(region.prepared_bytes() == unit);
  CHECK_NOTHROW(region.commit(3 * unit, 2 * unit));
  CHECK(get_access(advance(region.base(), 4 * unit), first_device) == access_right::read_write);
}

/// A region whose next two granules are ready, that a peer may read and that extend() must move.
struct prepared_region : region_of<8> {
  address_reservation blocker{unit, 0, advance(region.base(), region.max_bytes())};

  explicit prepared_region(prefetch_level how) {
    region.grant(second_device, access_right::read);
    region.commit(0, 3 * unit);
    write_tags(region, 0, 3, 1, stream);
    region.prepare(2 * unit, how);
    wait_for_background_tasks();
    REQUIRE(region.prepared_bytes() == 2 * unit);
  }
  void check_unchanged() const {
    CHECK(region.max_bytes() == 8 * unit);
    CHECK(region.committed_bytes() == 3 * unit);
    CHECK(region.committed_from(0) == 3 * unit);
    CHECK(region.chunk_count() == 1);
    CHECK(region.access(second_device) == access_right::read);
    CHECK(get_access(region.base(), second_device) == access_right::read);
    check_tags(region, 0, 3, 1, stream);
  }
};

template <typename Operation, typename Done>
void sweep(const char* name, Operation operation, Done done) {
  start_worker();
  for (const prefetch_level how : both_ways) {
    // The prepared chunk may have been mapped or released.
    fault_sweep{name, after_failure::capacity}.run(
        [how] { return std::make_unique<prepared_region>(how); },
        [&](auto& subject) { operation(subject); },
        [](auto& subject) {
          subject.check_unchanged();
          // The rest of the preparation does no harm.
          subject.region.commit(0, 8 * subject.unit);
          write_tags(subject.region, 3, 8, 2, subject.stream);
          check_tags(subject.region, 0, 3, 1, subject.stream);
          check_tags(subject.region, 3, 8, 2, subject.stream);
          CHECK(get_access(advance(subject.region.base(), 4 * subject.unit), second_device) ==
                access_right::read);
        },
        [&](auto& subject) { done(subject); });
  }
}

TEST_CASE("region: commit that fails beside a prepared chunk leaves the region as it was") {
  sweep(
      "commit", [](prepared_region& subject) { subject.region.commit(0, 7 * subject.unit); },
      [](const prepared_region& subject) {
        CHECK(subject.region.committed_from(0) == 7 * subject.unit);
        check_tags(subject.region, 0, 3, 1, subject.stream);
      });
}

TEST_CASE("region: decommit that fails beside a prepared chunk leaves the region as it was") {
  sweep(
      "decommit", [](prepared_region& subject) { subject.region.decommit(0, 8 * subject.unit); },
      [](const prepared_region& subject) { CHECK(subject.region.committed_bytes() == 0); });
}

TEST_CASE("region: grant that fails beside a prepared chunk leaves all rights as they were") {
  sweep(
      "grant",
      [](prepared_region& subject) {
        subject.region.grant(second_device, access_right::read_write);
      },
      [](prepared_region& subject) {
        subject.region.commit(0, 5 * subject.unit);
        for (const std::size_t index : {0, 4})
          CHECK(get_access(advance(subject.region.base(), index * subject.unit), second_device) ==
                access_right::read_write);
      });
}

TEST_CASE("region: extend that fails beside a prepared chunk leaves the region as it was") {
  sweep(
      "extend",
      [](prepared_region& subject) { subject.region.extend(16 * subject.unit, 7 * subject.unit); },
      [](const prepared_region& subject) {
        CHECK(subject.region.committed_from(0) == 7 * subject.unit);
        check_tags(subject.region, 0, 3, 1, subject.stream);
      });
}

TEST_CASE("region: a preparation that fails leaves nothing, and commit goes on without") {
  start_worker();
  for (const prefetch_level how : both_ways) {
    fault_sweep{"preparation"}.run(
        [] {
          auto result = std::make_unique<region>(first_device, 8 * granule());
          result->commit(0, granule());
          return result;
        },
        [how](auto& region) {
          region.prepare(2 * region.granularity(), how);
          wait_for_background_tasks();
        },
        [](auto&) { FAIL("a preparation threw"); },
        [](auto& region) {
          region.commit(granule(), granule());
          CHECK(region.committed_bytes() ==
                (region.failed_preparations() == 0 ? 3 : 2) * granule());
        });
  }
}

TEST_CASE("region: the regions of many threads share the worker") {
  const hipvmm_host_counters before = live_objects();
  std::atomic<int> wrong{0};
  in_threads(std::size_t{4}, [&wrong](std::size_t number) {
    const std::size_t unit = granule();
    const device_ref device{number % 2 == 0 ? 0 : 1};
    for (std::size_t round = 0; round < 20; ++round) {
      region region{device, 16 * unit};
      for (std::size_t end = unit; end <= 8 * unit; end += unit) {
        region.commit(0, std::max(end, region.committed_bytes()));
        region.prepare(
            2 * unit, (round + number) % 3 == 0 ? prefetch_level::created : prefetch_level::mapped);
        if (region.committed_from(0) != region.committed_bytes()) ++wrong;
      }
      if (round % 2 == 0) region.grant(device_ref{1 - device.ordinal()}, access_right::read);
      if (round % 4 == 0) region.decommit(0, 16 * unit);
      if (region.failed_preparations() != 0) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(live_objects() == before);
}

TEST_CASE("region: nobody else gets the ready chunk while the region changes") {
  const std::size_t unit = granule();
  struct : memory_registrar {
    std::size_t idle = 0;
    void add(const mapped_memory&) override {}
    void remove(const mapped_memory&) noexcept override {
      idle +=
          std::async(std::launch::async, [] { return detail::idle_bytes_of(first_device); }).get();
    }
  } watcher;
  region_options options;
  options.registrar = {std::shared_ptr<void>{}, &watcher};
  region region{first_device, 16 * unit, options};
  region.commit(0, unit);
  region.commit(unit, unit);
  const std::size_t before = detail::idle_bytes_of(first_device);
  region.prepare(unit, prefetch_level::created);
  wait_for_background_tasks();
  REQUIRE(detail::idle_bytes_of(first_device) == before + unit);
  region.decommit(0, unit);
  CHECK(watcher.idle == before);
  CHECK(region.prepared_bytes() == unit);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
