// SPDX-License-Identifier: MIT
// Regions whose chunks move to a device of which other things were found out than of their own.
#include "region/region_test.hpp"
#include "support/host/host_provider.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

/// Two chunks of a region of the first device, whose peer has these findings.
struct two_chunks {
  explicit two_chunks(const std::string& findings) : of_peer{findings, second_device} {
    region.grant(second_device);
    for (const std::size_t offset : {std::size_t{0}, unit}) region.commit(offset, unit);
    write_tags(region, 0, 2, 1, stream);
  }

  // Before the peer is asked for.
  const std::size_t unit = granule();
  assumed_capability of_peer;
  hipvmm::stream stream;
  hipvmm::region region{first_device, 8 * unit};
};

HIPVMM_TEST_CASE_IN("region: a device that chunks moved to may return memory with addresses only",
                    {"HIPVMM_HOST_PROFILE=strict"}) {
  two_chunks subject{"returns_memory=no"};
  REQUIRE(capability_of(second_device).needs(quirk::re_reserve));
  REQUIRE_FALSE(capability_of(first_device).needs(quirk::re_reserve));
  subject.region.move_range(0, 2 * subject.unit, second_device, subject.stream);
  check_tags(subject.region, 0, 2, 1, subject.stream);
  const call_counter reserved{"hipMemAddressReserve"};
  CHECK(subject.region.trim(0, subject.stream) == 2 * subject.unit);
  CHECK(reserved.count() > 0);
}

HIPVMM_TEST_CASE_IN("region: rights are set as each device that has chunks takes them",
                    {"HIPVMM_HOST_PROFILE=strict"}) {
  two_chunks subject{"base_access=no"};
  subject.region.move_range(0, 2 * subject.unit, second_device, subject.stream);
  const call_counter calls{"hipMemSetAccess"};
  subject.region.set_access({{second_device, access_right::read}});
  CHECK(calls.count() == 2);
}

HIPVMM_TEST_CASE_IN(
    "region: a tail is not replaced where a device that has chunks could not be "
    "granted the smaller one",
    {"HIPVMM_HOST_PROFILE=strict"}) {
  const std::size_t unit = granule();
  const assumed_capability of_peer{"tail_access=no,base_access=yes", second_device};
  REQUIRE(capability_of(second_device).needs(quirk::access_from_base));
  const stream stream;
  region subject{first_device, 16 * unit};
  subject.grant(second_device);
  subject.commit(0, 4 * unit);
  subject.commit(4 * unit, 4 * unit);
  subject.move_range(0, 4 * unit, second_device, stream);
  subject.set_access(0, 4 * unit, {});
  CHECK(subject.trim(5 * unit, stream, tail_chunk::replace) == 0);
  CHECK(subject.committed_bytes() == 8 * unit);
}

HIPVMM_TEST_CASE_IN("region: a move that is refused leaves no work-around of the other device",
                    {"HIPVMM_HOST_PROFILE=strict"}) {
  two_chunks subject{"coherent_aliases=no"};
  REQUIRE(capability_of(second_device).needs(quirk::no_aliases));
  {
    const planned_fault fault{"hipMemCreate", 1, hipErrorUnknown};
    CHECK_THROWS_AS(subject.region.move_range(0, subject.unit, second_device, subject.stream),
                    hip_error);
  }
  CHECK(subject.region.can_move_chunks());
  CHECK(subject.region.move_range(0, subject.unit, second_device, subject.stream) == subject.unit);
  CHECK_FALSE(subject.region.can_move_chunks());
  check_tags(subject.region, 0, 2, 1, subject.stream);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
