// SPDX-License-Identifier: MIT
// Memory that the driver returns only with its addresses, if growth fails.
#include "region/chunks/region_chunks.hpp"
#include "region/region_test.hpp"
#include "support/host/host_test.hpp"
#include "support/region/held_memory.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

HIPVMM_TEST_CASE_IN(
    "region: where addresses hold memory that of a commit that failed comes back too",
    under("rocm-6.4", kept_memory)) {
  const held_memory held;
  region one{first_device, 16 * granule()};
  {
    const planned_fault fault{"hipMemSetAccess", 1, hipErrorUnknown};
    CHECK_THROWS_AS(one.commit(0, granule()), hip_error);
  }
  CHECK(held.granules() == 0);
  one.commit(2 * granule(), granule());
  {
    // Of the chunk before and the one behind.
    const planned_fault fault{"hipMemCreate", 2, hipErrorUnknown};
    CHECK_THROWS_AS(one.commit(0, 5 * granule()), hip_error);
  }
  CHECK(held.granules() == 1);
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory none stays of commits that fail",
                    under("rocm-6.4", kept_memory)) {
  struct empty_region {
    const held_memory held;
    hipvmm::region region{first_device, 16 * granule()};
  };
  const auto commit = [](auto& it) { it.region.commit(0, 2 * granule()); };
  const auto committed = [](auto& it) { CHECK(it.held.granules() == 2); };
  const auto unchanged = [](auto& it) {
    CHECK(it.held.granules() == 0);
    CHECK(it.region.max_bytes() == 16 * granule());
    it.region.commit(0, granule());
    CHECK(it.held.granules() == 1);
  };
  fault_sweep{"first commit", after_failure::capacity}.run<empty_region>(commit, unchanged,
                                                                         committed);
  fault_sweep{"first adoption", after_failure::capacity}.run<empty_region>(
      [](auto& it) {
        it.region.adopt(0, physical_chunk{first_device, 2 * granule()});
      },
      unchanged, committed);
}

void takes_back_lost_addresses() {
  const std::size_t bytes = 4 * granule();
  const auto commits = [](region& one) { one.commit(0, granule()); };
  const auto adopts = [](region& one) { one.adopt(0, physical_chunk{first_device, granule()}); };
  const auto extends = [&](region& one) { one.extend(2 * bytes, granule()); };
  const std::vector<std::function<void(region&)>> calls{commits, adopts, extends};
  for (const auto& maps : calls) {
    region one{first_device, bytes, {.when_empty = empty_policy::keeps_addresses}};
    void* const base = one.base();
    commits(one);
    static_cast<void>(one.decommit(0, granule()));
    drain_retired_memory();
    {
      error_recorder reported;
      const planned_fault fault{"hipMemAddressReserve", 1, hipErrorOutOfMemory};
      detail::return_pinned_memory(one);
    }
    {
      const address_reservation others{bytes, 0, base};
      REQUIRE(others.get() == base);
      one.prepare(granule(), prefetch_level::mapped);
      CHECK(one.cancel_or_wait() == 0);
      CHECK(one.failed_preparations() == 0);
      if (&maps == &calls.back()) {
        maps(one);
        CHECK(one.base() != base);
        continue;
      }
      try {
        maps(one);
        FAIL_CHECK("others hold the addresses");
      } catch (const out_of_memory& error) {
        CHECK(error.resource() == exhausted::addresses);
        CHECK(std::string{error.what()}.find("others hold the addresses at 0x") !=
              std::string::npos);
      }
      CHECK(one.committed_bytes() == 0);
    }
    maps(one);
    CHECK(one.base() == base);
    const stream own{first_device};
    write_tags(one, 0, 1, 7, own);
    check_tags(one, 0, 1, 7, own);
  }
}

HIPVMM_TEST_CASE_IN("region: each call that maps takes back addresses that it has lost",
                    under("rocm-6.4", kept_memory)) {
  takes_back_lost_addresses();
}

HIPVMM_TEST_CASE_IN("region: where reservations join, lost addresses are taken back too",
                    under("strict", kept_memory)) {
  takes_back_lost_addresses();
}

HIPVMM_TEST_CASE_IN("chunk_cache: one that ends leaves memory that addresses hold to others",
                    under("rocm-6.4", kept_memory)) {
  const held_memory held;
  region one{first_device, 16 * granule()};
  one.commit(0, granule());
  one.commit(granule(), granule());
  static_cast<void>(one.decommit(0, granule()));
  drain_retired_memory();
  {
    chunk_cache own{16 * granule()};
    own.recycle(chunk_cache::shared().acquire(first_device, granule()));
    CHECK(own.statistics().bytes == granule());
  }
  CHECK(held.granules() == 2);
  CHECK(chunk_cache::shared().statistics().bytes == granule());
  const physical_chunk again = chunk_cache::shared().acquire(first_device, granule());
  CHECK(held.granules() == 2);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
