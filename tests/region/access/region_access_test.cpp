// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Whether HIP gives `device` this right over every backed granule of [0, count).
bool holds(const region& region, std::size_t count, device_ref device, access_right right) {
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t offset = index * region.granularity();
    if (region.committed_from(offset) != 0 &&
        get_access(advance(region.base(), offset), device) != right)
      return false;
  }
  return true;
}

struct three_chunks : region_of<16> {
  three_chunks() {
    commit_as_granted(region, 0, 2 * unit);
    region.commit(2 * unit, unit);
    region.commit(5 * unit, unit);
  }
};

TEST_CASE_FIXTURE(three_chunks, "region: the owner has read_write from the start, others nothing") {
  CHECK(region.access(first_device) == access_right::read_write);
  CHECK(holds(region, 16, first_device, access_right::read_write));
  CHECK(region.access(device_ref{1}) == access_right::none);
  CHECK(region.rights().entries().size() == 1);
}

TEST_CASE_FIXTURE(three_chunks, "region: a device that was granted reads what the owner wrote") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  write_tags(region, 0, 3, 1, stream);
  region.grant(peer, access_right::read);
  check_tags(region, 0, 3, 1, hipvmm::stream{peer});
}

TEST_CASE_FIXTURE(three_chunks, "region: revoke takes the right from present and later chunks") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  region.grant(peer);
  region.revoke(peer);
  region.commit(8 * unit, unit);
  CHECK(region.access(peer) == access_right::none);
  CHECK(holds(region, 16, peer, access_right::none));
}

TEST_CASE_FIXTURE(three_chunks, "region: the owner's own right can be narrowed") {
  region.grant(first_device, access_right::read);
  region.commit(8 * unit, unit);
  CHECK(holds(region, 16, first_device, access_right::read));
}

TEST_CASE_FIXTURE(three_chunks, "region: a device without a link throws and changes nothing") {
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "device that cannot reach the first");
  CHECK_THROWS_AS(region.grant(stranger), unsupported);
  CHECK(region.access(stranger) == access_right::none);
  CHECK(holds(region, 16, first_device, access_right::read_write));
}

TEST_CASE_FIXTURE(three_chunks, "region: an unknown device throws invalid_argument") {
  CHECK_THROWS_AS(region.grant(device_ref{device_count()}), std::invalid_argument);
  CHECK_THROWS_AS(region.revoke(device_ref{-1}), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
