// SPDX-License-Identifier: MIT
// Chunks of others while HIP calls fail, if HIP counts no reference, and their cost.
#include <hipvmm/region/retained_chunk.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "region/region_test.hpp"
#include "region/retained/foreign_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Two chunks of another library, and a region that is to show them.
struct adopter {
  hipvmm::stream stream;
  chunk_cache cache;
  foreign_memory memory{{1, 2}};
  hipvmm::region region{first_device, 8 * granule(), options()};

  adopter() { write_tags(memory, 0, 3, 1, stream); }
  [[nodiscard]] region_options options() {
    return region_options{.cache = &cache, .when_empty = empty_policy::keeps_addresses};
  }
};
constexpr auto make_adopter = [] { return std::make_unique<adopter>(); };

TEST_CASE("retain_chunks: a failure leaves no reference") {
  HIPVMM_REQUIRE_RETAINING();
  fault_sweep{"retain_chunks"}.run(
      make_adopter,
      [](auto& subject) {
        CHECK(retain_chunks(subject.memory.base(), subject.memory.bytes()).size() == 2);
      },
      [](auto& subject) { check_tags(subject.memory, 0, 3, 1, subject.stream); },
      [](auto& subject) { check_tags(subject.memory, 0, 3, 1, subject.stream); });
}

TEST_CASE("retain_chunk: an adoption that fails leaves the owner's memory and the region") {
  HIPVMM_REQUIRE_RETAINING();
  fault_sweep{"adoption"}.run(
      make_adopter,
      [](auto& subject) { subject.region.adopt(0, retain_chunk(subject.memory.base()).chunk); },
      [](auto& subject) {
        CHECK(subject.region.committed_bytes() == 0);
        check_tags(subject.memory, 0, 3, 1, subject.stream);
      },
      [](auto& subject) { check_tags(subject.region, 0, 1, 1, subject.stream); });
}

TEST_CASE("retain_chunk: memory goes when both have released it, in either order") {
  HIPVMM_REQUIRE_RETAINING();
  const hipvmm_host_counters before = live_objects();
  for (const bool owner_first : {true, false}) {
    CAPTURE(owner_first);
    auto subject = make_adopter();
    for (retained_chunk& each : retain_chunks(subject->memory.base(), subject->memory.bytes()))
      subject->region.adopt(subject->region.committed_bytes(), std::move(each.chunk));
    // A reference of each side to each chunk.
    REQUIRE(live_objects().handles == before.handles + 4);
    const std::uint64_t held = before.handles + 2;
    if (owner_first) {
      subject->memory.end();
      CHECK(live_objects().handles == held);
      check_tags(subject->region, 0, 3, 1, subject->stream);
      subject->region.decommit(0, 8 * granule());
    } else {
      subject->region.decommit(0, 8 * granule());
      CHECK(live_objects().handles == held);
      check_tags(subject->memory, 0, 3, 1, subject->stream);
      subject->memory.end();
    }
    // The cache keeps none that was somebody else's.
    CHECK(live_objects().handles == before.handles);
    subject.reset();
    CHECK(live_objects() == before);
  }
}

TEST_CASE("retain_chunk: no reference is taken on a device that may not count it") {
  const assumed_capability without{"retains_chunks=no"};
  const foreign_memory memory{{1}};
  const device_allocation plain{first_device, 4096};
  const call_counter retained{"hipMemRetainAllocationHandle"};
  for (const void* each :
       {static_cast<const void*>(memory.base()), static_cast<const void*>(plain.get())})
    CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunk(each)),
                         doctest::Contains("let the owner export it, or copy"), unsupported);
  CHECK(retained.count() == 0);
}

TEST_CASE("retain_chunk: memory of hipMalloc is never retained") {
  HIPVMM_REQUIRE_RETAINING();
  const device_allocation plain{first_device, 4096};
  const call_counter retained{"hipMemRetainAllocationHandle"};
  CHECK_THROWS_AS(static_cast<void>(retain_chunk(plain.get())), std::invalid_argument);
  CHECK(retained.count() == 0);
}

TEST_CASE("retain_chunk: no chunk gets a second address where aliases are not coherent") {
  HIPVMM_REQUIRE_RETAINING();
  const assumed_capability without{"coherent_aliases=no"};
  const foreign_memory memory{{1}};
  CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunk(memory.base())),
                       doctest::Contains("two addresses of one chunk"), unsupported);
}

void check_refused() {
  const foreign_memory memory{{1}};
  const device_allocation plain{first_device, 4096};
  CHECK_FALSE(capability_of(first_device).has(trait::retains_chunks));
  CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunk(memory.base())),
                       doctest::Contains("went with their owner"), unsupported);
  CHECK_THROWS_AS(static_cast<void>(retain_chunk(plain.get())), unsupported);
}

HIPVMM_TEST_CASE_IN("retain_chunk: ROCm 6.4, which counts no reference, is asked for none",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4"}) {
  check_refused();
}

HIPVMM_TEST_CASE_IN("retain_chunk: ROCm 7.2, which counts no reference, is asked for none",
                    {"HIPVMM_HOST_PROFILE=rocm-7.2"}) {
  check_refused();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
