// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "support/device_use.hpp"
#include "support/held_worker.hpp"
#include "support/region/prefetch_levels.hpp"
#include "support/region/shared_cache.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

using detail::wait_for_background_tasks;

void prepare_and_wait(region& region, std::size_t bytes, prefetch_level how) {
  region.prepare(bytes, how);
  wait_for_background_tasks();
}

TEST_CASE_FIXTURE(region_of<16>,
                  "region: while a chunk is ready or on its way no second one is prepared") {
  {
    const held_worker held;
    region.prepare(unit, prefetch_level::mapped);
    region.prepare(5 * unit, prefetch_level::mapped);
    CHECK(region.prepared_bytes() == 0);
  }
  wait_for_background_tasks();
  region.prepare(5 * unit, prefetch_level::mapped);
  CHECK(region.cancel_or_wait() == unit);
}

TEST_CASE_FIXTURE(region_of<16>, "region: preparing nothing, or not at all, does nothing") {
  prepare_and_wait(region, 0, prefetch_level::mapped);
  prepare_and_wait(region, unit, prefetch_level::off);
  CHECK(region.prepared_bytes() == 0);
  CHECK(region.failed_preparations() == 0);
}

TEST_CASE_FIXTURE(region_of<16>, "region: prepare takes whole granules of its own addresses") {
  CHECK_THROWS_AS(region.prepare(1, prefetch_level::mapped), std::invalid_argument);
  CHECK_THROWS_AS(region.prepare(17 * unit, prefetch_level::mapped), std::out_of_range);
  const hipvmm::region taken = std::move(region);
  CHECK_THROWS_AS(region.prepare(unit, prefetch_level::mapped), std::invalid_argument);
  CHECK(region.cancel_or_wait() == 0);
  CHECK(region.failed_preparations() == 0);
}

TEST_CASE_FIXTURE(region_of<16>, "region: a cancel drops an order that has not begun") {
  {
    const held_worker held;
    region.prepare(unit, prefetch_level::mapped);
    CHECK(region.cancel_or_wait() == 0);
    region.prepare(2 * unit, prefetch_level::mapped);
  }
  wait_for_background_tasks();
  CHECK(region.prepared_bytes() == 2 * unit);
}

TEST_CASE("region: a commit makes what was ordered there and has not begun") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  const std::size_t unit = granule();
  region region{first_device, 16 * unit};
  const held_worker held;
  region.commit(4 * unit, unit);
  region.prepare(3 * unit, prefetch_level::mapped);
  region.commit(0, 2 * unit);
  CHECK(region.committed_bytes() == 3 * unit);
  region.prepare(3 * unit, prefetch_level::mapped);
  CHECK(region.cancel_or_wait() == 0);
  region.commit(5 * unit, unit);
  CHECK(region.committed_from(4 * unit) == 4 * unit);
  CHECK(region.chunk_count() == 3);
  region.prepare(3 * unit, prefetch_level::mapped);
  region.decommit(0, 16 * unit);
  region.commit(8 * unit, unit);
  CHECK(region.committed_bytes() == unit);
}

TEST_CASE_FIXTURE(region_of<16>,
                  "region: operations do not wait for a preparation that has not begun") {
  const held_worker held;
  region.prepare(unit, prefetch_level::mapped);
  region.commit(0, 2 * unit);
  CHECK(region.committed_bytes() == 2 * unit);
  region.prepare(unit, prefetch_level::mapped);
  region.grant(first_device, access_right::read_write);
  region.prepare(unit, prefetch_level::mapped);
  CHECK(region.decommit(unit, unit) == 0);
  region.prepare(unit, prefetch_level::mapped);
  CHECK(region.trim(unit, stream, tail_chunk::replace) == unit);
  region.prepare(unit, prefetch_level::mapped);
  region.extend(32 * unit, 3 * unit);
  CHECK(region.committed_from(0) == 3 * unit);
  region.prepare(unit, prefetch_level::mapped);
}

TEST_CASE("region: decommit and trim release what was prepared") {
  const std::size_t unit = granule();
  const stream stream;
  for (const prefetch_level how : both_ways) {
    chunk_cache cache{16 * unit};
    region region{first_device, 16 * unit, {handle_type::none, &cache}};
    region.commit(0, 2 * unit);
    prepare_and_wait(region, 3 * unit, how);
    CHECK(region.decommit(unit, unit) == 0);
    CHECK(region.prepared_bytes() == 0);
    CHECK(cache.statistics().bytes == 3 * unit);
    prepare_and_wait(region, 3 * unit, how);
    CHECK(cache.statistics().bytes == 0);
    CHECK(region.trim(2 * unit, stream) == 0);
    CHECK(region.prepared_bytes() == 0);
    CHECK(cache.statistics().bytes == 3 * unit);
    CHECK(region.committed_from(0) == 2 * unit);
  }
}

TEST_CASE_FIXTURE(region_of<16>, "region: a move takes what was prepared or is on its way along") {
  hipvmm::region second{first_device, 16 * unit};
  prepare_and_wait(region, unit, prefetch_level::mapped);
  std::optional<held_worker> held{std::in_place};
  second.prepare(2 * unit, prefetch_level::mapped);
  std::swap(region, second);
  held.reset();
  wait_for_background_tasks();
  CHECK(region.prepared_bytes() == 2 * unit);
  CHECK(second.prepared_bytes() == unit);
  region.commit(0, unit);
  CHECK(region.committed_bytes() == 2 * unit);
}

TEST_CASE("region: the destructor cancels a preparation") {
  const std::size_t unit = granule();
  release_idle_memory();
  const std::size_t before = bytes_in_use();
  for (const prefetch_level how : both_ways) {
    {
      const held_worker held;
      region waiting{first_device, 16 * unit};
      waiting.prepare(unit, how);
    }
    region begun{first_device, 16 * unit};
    begun.prepare(unit, how);
    region ready{first_device, 16 * unit};
    prepare_and_wait(ready, unit, how);
    CHECK(ready.prepared_bytes() == unit);
  }
  release_idle_memory();
  CHECK(bytes_in_use() == before);
}

TEST_CASE("region: extend in place keeps and takes what was prepared") {
  const std::size_t unit = granule();
  const stream stream;
  for (const prefetch_level how : both_ways) {
    region region{first_device, 4 * unit};
    region.commit(0, 2 * unit);
    write_tags(region, 0, 2, 1, stream);
    prepare_and_wait(region, unit, how);
    region.extend(16 * unit, 0);
    write_tags(region, 0, region.committed_bytes() / unit, 1, stream);
    region.commit(0, 6 * unit);
    CHECK(region.prepared_bytes() == 0);
    CHECK(region.committed_from(0) == 6 * unit);
    check_tags(region, 0, 2, 1, stream);
  }
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
