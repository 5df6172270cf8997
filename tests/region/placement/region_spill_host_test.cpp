// SPDX-License-Identifier: MIT
// Regions that spill, and moves to the host, while HIP calls fail.
#include "region/region_test.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// A chunk on the device and one on the host, with tags.
struct spilled_region {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  chunk_cache cache;
  hipvmm::region region{first_device, 16 * unit, options()};

  spilled_region() {
    region.commit(0, unit);
    region.commit(unit, unit);
    write_tags(region, 0, 2, 1, stream);
  }
  [[nodiscard]] region_options options() {
    return region_options{.cache = &cache,
                          .when_empty = empty_policy::keeps_addresses,
                          .placement = chunk_placement::spill(unit)};
  }
  [[nodiscard]] std::size_t on_host() const {
    std::size_t result = 0;
    for (const chunk_view& each : region.chunks()) result += each.location.is_host() ? 1 : 0;
    return result;
  }
};
constexpr auto make_spilled = [] { return std::make_unique<spilled_region>(); };
constexpr auto is_as_before = [](auto& subject) {
  // A rollback that HIP refuses loses a chunk, and says so.
  if (subject.region.chunk_count() != 2) return;
  CHECK(subject.on_host() == 1);
  check_tags(subject.region, 0, 2, 1, subject.stream);
};

TEST_CASE("region: memory that the device does not have is refused before addresses are reserved") {
  const assumed_capability without{"host_chunks=no,uncached_chunks=no"};
  region_options spilling{.placement = chunk_placement::spill(granule())};
  region_options uncached{.memory = chunk_memory::uncached};
  const call_counter reservations{"hipMemAddressReserve"};
  for (const region_options* const each : {&spilling, &uncached})
    CHECK_THROWS_AS((region{first_device, 4 * granule(), *each}), unsupported);
  CHECK(reservations.count() == 0);
}

TEST_CASE("region: growth on the host that fails leaves the region as it was") {
  if (!capability_of(first_device).has(trait::host_chunks)) return;
  fault_sweep{"spilled commit"}.run(
      make_spilled, [](auto& subject) { subject.region.commit(2 * subject.unit, subject.unit); },
      is_as_before, [](auto& subject) { CHECK(subject.on_host() == 2); });
}

TEST_CASE("region: move_range to the host and from it that fails leaves every byte where it was") {
  if (!capability_of(first_device).has(trait::host_chunks)) return;
  for (const memory_location to : {memory_location::host(), memory_location{first_device}}) {
    fault_sweep{"move_range"}.run(
        make_spilled,
        [to](auto& subject) { subject.region.move_range(0, 2 * subject.unit, to, subject.stream); },
        is_as_before,
        [to](auto& subject) {
          CHECK(subject.on_host() == (to.is_host() ? 2U : 0U));
          check_tags(subject.region, 0, 2, 1, subject.stream);
        });
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
