// SPDX-License-Identifier: MIT
// Regions of uncached chunks while HIP calls fail, and on devices that differ in making them.
#include <hipvmm/container/growable_device_vector.hpp>
#include "region/region_test.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

struct uncached_region {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  chunk_cache cache;
  hipvmm::region region{first_device, 16 * unit, options()};

  uncached_region() {
    region.commit(0, unit);
    write_tags(region, 0, 1, 1, stream);
  }
  [[nodiscard]] region_options options() {
    return region_options{.cache = &cache,
                          .when_empty = empty_policy::keeps_addresses,
                          .memory = chunk_memory::uncached};
  }
};

TEST_CASE("region: growth by uncached chunks that fails leaves the region as it was") {
  if (!capability_of(first_device).has(trait::uncached_chunks)) return;
  fault_sweep{"uncached commit", nothing_but_pinned()}.run<uncached_region>(
      [](auto& subject) { subject.region.commit(subject.unit, 2 * subject.unit); },
      [](auto& subject) {
        CHECK(subject.region.committed_bytes() == subject.unit);
        check_tags(subject.region, 0, 1, 1, subject.stream);
      },
      [](auto& subject) { CHECK(subject.region.committed_bytes() == 3 * subject.unit); });
}

TEST_CASE("region: uncached chunks need each device to make them") {
  if (!capability_of(first_device).has(trait::uncached_chunks)) return;
  static_cast<void>(capability_of(first_device));
  const assumed_capability without{"uncached_chunks=no", second_device};
  uncached_region subject;
  subject.region.grant(second_device);
  CHECK_THROWS_WITH_AS(subject.region.move_range(0, subject.unit, second_device, subject.stream),
                       doctest::Contains("region::move_range: device 1 makes no uncached chunks"),
                       unsupported);
  check_tags(subject.region, 0, 1, 1, subject.stream);
  region_options options = subject.options();
  options.placement = chunk_placement::striped({first_device, second_device}, subject.unit);
  CHECK_THROWS_WITH_AS((region{first_device, 4 * subject.unit, options}),
                       doctest::Contains("region_options::memory: device 1 makes no uncached"),
                       unsupported);
}

HIPVMM_TEST_CASE_IN("growable_device_vector: there are no uncached vectors on hipMalloc",
                    {"HIPVMM_HOST_PROFILE=rocm-5.7"}) {
  const growth_options options{.chunks = {.memory = chunk_memory::uncached}};
  CHECK_THROWS_WITH_AS((growable_device_vector<int>{first_device, options}),
                       doctest::Contains("growth_options::chunks.memory on device 0"), unsupported);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
