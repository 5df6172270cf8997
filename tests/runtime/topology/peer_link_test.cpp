// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/topology/peer_link.hpp>

#include <hipvmm/runtime/device.hpp>
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("link_type: every enumerator has a name") {
  CHECK(name_of(link_type::unknown) == "unknown");
  CHECK(name_of(link_type::hypertransport) == "hypertransport");
  CHECK(name_of(link_type::qpi) == "qpi");
  CHECK(name_of(link_type::pcie) == "pcie");
  CHECK(name_of(link_type::infiniband) == "infiniband");
  CHECK(name_of(link_type::xgmi) == "xgmi");
  CHECK(name_of(static_cast<link_type>(77)) == "unknown");
}

TEST_CASE("peer_links: has every ordered pair of different devices once") {
  const std::vector<peer_link> links = peer_links();
  std::size_t at = 0;
  for (int device = 0; device < device_count(); ++device) {
    const std::vector<peer_link> row = peer_links(device_ref{device});
    CHECK(row.size() == static_cast<std::size_t>(device_count() - 1));
    for (const peer_link& each : row) {
      REQUIRE(at < links.size());
      CHECK(each.device == device_ref{device});
      CHECK(each.peer != each.device);
      CHECK(links[at].device == each.device);
      CHECK(links[at].peer == each.peer);
      CHECK(each.can_access == each.device.can_access_peer(each.peer));
      if (each.access_supported) CHECK(*each.access_supported == each.can_access);
      CHECK((each.type == link_type::unknown || each.hops));
      ++at;
    }
  }
  CHECK(at == links.size());
}

TEST_CASE("peer_link_between: a device has no link to itself") {
  CHECK_THROWS_WITH_AS(static_cast<void>(peer_link_between(first_device, first_device)),
                       doctest::Contains("device 0 has no link to itself"), std::invalid_argument);
}

TEST_CASE("peer_link_between: an unknown device throws invalid_argument on either side") {
  for (const device_ref unknown : {device_ref{-1}, device_ref{device_count()}}) {
    CHECK_THROWS_AS(static_cast<void>(peer_link_between(first_device, unknown)),
                    std::invalid_argument);
    CHECK_THROWS_AS(static_cast<void>(peer_link_between(unknown, first_device)),
                    std::invalid_argument);
    CHECK_THROWS_AS(static_cast<void>(peer_links(unknown)), std::invalid_argument);
  }
}

}  // namespace
}  // namespace hipvmm::test
