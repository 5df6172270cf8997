// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/access.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include "support/devices.hpp"
#include "support/region/mapped_chunk.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

TEST_CASE("access_map: the owner starts with read_write, others with none") {
  const access_map rights{first_device};
  CHECK(rights.owner() == first_device);
  CHECK(rights.get(first_device) == access_right::read_write);
  CHECK(rights.get(device_ref{1}) == access_right::none);
  CHECK(rights.entries().size() == 1);
}

TEST_CASE("access_map: the owner's right can be narrowed and restored") {
  access_map rights{first_device};
  rights.set(first_device, access_right::read);
  CHECK(rights.get(first_device) == access_right::read);
  rights.set(first_device, access_right::none);
  CHECK(rights.get(first_device) == access_right::none);
  CHECK(rights.entries().empty());
  rights.set(first_device, access_right::read_write);
  CHECK(rights.get(first_device) == access_right::read_write);
}

TEST_CASE("access_map: entries are ordered by device and hold each once") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  access_map rights{peer};
  rights.set(first_device, access_right::read);
  rights.set(first_device, access_right::read_write);
  REQUIRE(rights.entries().size() == 2);
  CHECK(rights.entries()[0] == access_desc{first_device, access_right::read_write});
  CHECK(rights.entries()[1] == access_desc{peer, access_right::read_write});
}

TEST_CASE("access_map: a right of none takes the entry out") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  access_map rights{first_device};
  rights.set(peer, access_right::read);
  rights.set(peer, access_right::none);
  CHECK(rights.entries().size() == 1);
  CHECK(rights.get(peer) == access_right::none);
}

TEST_CASE("access_map: an unknown device throws invalid_argument and is named") {
  access_map rights{first_device};
  const int unknown = device_count();
  CHECK_THROWS_WITH_AS(rights.set(device_ref{unknown}, access_right::read),
                       doctest::Contains(("device " + std::to_string(unknown)).c_str()),
                       std::invalid_argument);
}

TEST_CASE("access_map: a device without a link throws unsupported naming both devices") {
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "device that cannot reach the first");
  access_map rights{first_device};
  CHECK_THROWS_WITH_AS(rights.set(stranger, access_right::read),
                       doctest::Contains(("device " + std::to_string(stranger.ordinal())).c_str()),
                       unsupported);
  CHECK_THROWS_WITH_AS(
      rights.set(stranger, access_right::read),
      doctest::Contains(("device " + std::to_string(first_device.ordinal())).c_str()), unsupported);
  CHECK(rights.get(stranger) == access_right::none);
}

TEST_CASE("access_map: taking a right from a device without a link is no error") {
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "device that cannot reach the first");
  access_map rights{first_device};
  CHECK_NOTHROW(rights.set(stranger, access_right::none));
}

TEST_CASE("access_map: apply makes HIP agree with every entry") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const physical_chunk chunk{first_device, granule()};
  const address_reservation reservation{granule()};
  const mapping map{reservation, 0, chunk};
  access_map rights{first_device};
  rights.set(peer, access_right::read);
  rights.apply(map.get(), map.bytes());
  CHECK(get_access(map.get(), first_device) == access_right::read_write);
  CHECK(get_access(map.get(), peer) == access_right::read);
}

TEST_CASE("access_map: apply of no entry leaves every device without access") {
  const physical_chunk chunk{first_device, granule()};
  const address_reservation reservation{granule()};
  const mapping map{reservation, 0, chunk};
  access_map rights{first_device};
  rights.set(first_device, access_right::none);
  CHECK_NOTHROW(rights.apply(map.get(), map.bytes()));
  CHECK(get_access(map.get(), first_device) == access_right::none);
}

TEST_CASE("set_access: every right reads back") {
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  for (const access_right right :
       {access_right::read, access_right::none, access_right::read_write}) {
    set_access(mapped.map.get(), mapped.map.bytes(), {first_device, right});
    CHECK(get_access(mapped.map.get(), first_device) == right);
  }
}

TEST_CASE("set_access: changes the named device alone") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  set_access(mapped.map.get(), mapped.map.bytes(), {peer, access_right::read_write});
  set_access(mapped.map.get(), mapped.map.bytes(), {first_device, access_right::read});
  CHECK(get_access(mapped.map.get(), peer) == access_right::read_write);
  CHECK(get_access(mapped.map.get(), first_device) == access_right::read);
}

TEST_CASE("get_access: answers at any address within the mapping") {
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  const auto* const start = static_cast<const char*>(mapped.map.get());
  CHECK(get_access(start + 1, first_device) == access_right::read_write);
  CHECK(get_access(start + granule() - 1, first_device) == access_right::read_write);
}

TEST_CASE("get_access: throws hip_error where nothing is mapped") {
  const address_reservation reservation{granule()};
  CHECK_THROWS_AS(static_cast<void>(get_access(reservation.get(), first_device)), hip_error);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
