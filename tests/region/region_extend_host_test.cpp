// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"
#include "support/region/region_with_room.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Takes the addresses behind `region`, so that it must move to grow.
address_reservation blocker_behind(const region& region) {
  void* const end = advance(region.base(), region.max_bytes());
  return address_reservation{region.granularity(), 0, end};
}

TEST_CASE_FIXTURE(region_of<8>,
                  "region: extend copies no byte and takes no more memory than it commits") {
  region.commit(0, 8 * unit);
  const auto blocker = blocker_behind(region);
  const std::size_t before = hipvmm_host_device_bytes(0);
  hipvmm_host_reset_peak_device_bytes(0);
  const calls_of copies{copying_functions};
  REQUIRE(region.extend(32 * unit, 12 * unit));
  CHECK(copies.count() == 0);
  CHECK(hipvmm_host_device_bytes(0) == before + 4 * unit);
  // One byte more if the library waits for the device by hipFree.
  CHECK(hipvmm_host_peak_device_bytes(0) <= before + 4 * unit + 1);
}

TEST_CASE("region: extend in place that fails gives the addresses behind back") {
  HIPVMM_SKIP_UNDER(no_tail_access);
  if (capability_of(first_device).needs(quirk::one_reservation)) {
    MESSAGE("skipped: copies cannot span two reservations, so the region moves");
    return;
  }
  const std::size_t unit = granule();
  std::optional<region> found = region_with_room(8 * unit, 8 * unit);
  if (!found) {
    MESSAGE("skipped: no region was given free addresses behind it");
    return;
  }
  region& region = *found;
  region.commit(0, 4 * unit);
  const void* const base = region.base();
  const hipvmm_host_counters before = live_objects();
  for (const char* const call : {"hipMemCreate", "hipMemMap", "hipMemSetAccess"}) {
    CAPTURE(call);
    const planned_fault fault{call, 1, hipErrorUnknown};
    CHECK_THROWS_AS(region.extend(16 * unit, 12 * unit), hip_error);
    CHECK(fault.struck());
    CHECK(region.max_bytes() == 8 * unit);
    CHECK(region.committed_bytes() == 4 * unit);
    CHECK(live_objects() == before);
  }
  CHECK_FALSE(region.extend(16 * unit, 12 * unit));
  CHECK(region.base() == base);
  CHECK(region.committed_from(0) == 12 * unit);
}

TEST_CASE_FIXTURE(region_of<8>, "region: extend that moves gives the old addresses back") {
  region.commit(0, 8 * unit);
  const auto blocker = blocker_behind(region);
  const hipvmm_host_counters before = live_objects();
  REQUIRE(region.extend(32 * unit, 0));
  CHECK(live_objects() == before);
}

TEST_CASE("region: extend that moves waits for work that uses the old base") {
  const std::size_t unit = granule();
  const stream stream;
  const pinned_memory result{unit};
  region region{first_device, 4 * unit};
  region.commit(0, 4 * unit);
  fill_async(stream, region.base(), 0x42, unit);
  stream.synchronize();
  const auto blocker = blocker_behind(region);

  const calls_of waits{device_waiting_functions};
  const call_counter unmaps{"hipMemUnmap"};
  held_streams held;
  copy_async(stream, result.get(), region.base(), unit);
  bool moved = false;
  std::thread extending{[&] { moved = region.extend(32 * unit, 0); }};
  while (waits.count() == 0 && unmaps.count() == 0) std::this_thread::yield();
  CHECK(unmaps.count() == 0);
  held.release();
  extending.join();
  CHECK(moved);
  CHECK_NOTHROW(stream.synchronize());
  CHECK(std::vector(result.get(), result.get() + unit) == byte_vector(unit, 0x42));
}

TEST_CASE_FIXTURE(region_of<4>,
                  "region: extend on a full device throws and leaves the region where it was") {
  region.commit(0, 4 * unit);
  write_tags(region, 0, 4, 1, stream);
  void* const base = region.base();
  const auto blocker = blocker_behind(region);
  const hipvmm_host_counters before = live_objects();
  CHECK_THROWS_AS(region.extend(4 * GiB, 2 * GiB), out_of_memory);
  CHECK(live_objects() == before);
  CHECK(region.base() == base);
  CHECK(region.max_bytes() == 4 * unit);
  check_tags(region, 0, 4, 1, stream);
}

// 24 granules of addresses, 16 of them the region's: no larger reservation beside it is to be had.
HIPVMM_TEST_CASE_IN("region: extend without addresses for it throws and changes nothing",
                    {"HIPVMM_HOST_ADDRESS_SPACE=48MiB", "HIPVMM_HOST_GRANULARITY=2MiB"}) {
  const std::size_t unit = granule();
  const stream stream;
  region region{first_device, 16 * unit};
  region.commit(0, unit);
  region.commit(14 * unit, unit);
  write_tag(region, 0, 1, stream);
  write_tag(region, 14, 1, stream);
  const auto blocker = blocker_behind(region);
  const hipvmm_host_counters before = live_objects();
  const auto error = thrown_by<out_of_memory>([&] { region.extend(64 * unit, 0); });
  CHECK(error.resource() == exhausted::addresses);
  CHECK(live_objects() == before);
  CHECK(region.max_bytes() == 16 * unit);
  CHECK(has_tag(region, 0, 1, stream));
  CHECK(has_tag(region, 14, 1, stream));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
