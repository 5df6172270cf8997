// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/access.hpp>

#include "support/region/mapped_chunk.hpp"
#include "support/test.hpp"

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

TEST_CASE("access_list: entries are ordered by device and found by it") {
  const access_list list{{device_ref{2}, access_right::read},
                         {device_ref{0}, access_right::none},
                         {device_ref{1}, access_right::read_write}};
  REQUIRE(list.entries().size() == 3);
  CHECK(list.entries()[0] == access_desc{device_ref{0}, access_right::none});
  CHECK(list.entries()[2] == access_desc{device_ref{2}, access_right::read});
  CHECK(list.find(device_ref{1}) == access_right::read_write);
  CHECK(list.find(device_ref{0}) == access_right::none);
  CHECK_FALSE(list.find(device_ref{3}).has_value());
}

TEST_CASE("access_list: a device listed twice throws invalid_argument and is named") {
  CHECK_THROWS_WITH_AS((access_list{{device_ref{1}, access_right::read},
                                    {device_ref{0}, access_right::read},
                                    {device_ref{1}, access_right::read}}),
                       doctest::Contains("names device 1 twice"), std::invalid_argument);
}

TEST_CASE("access_list: lists are equal where they name the same rights, in whatever order") {
  const access_list one{{device_ref{0}, access_right::read}, {device_ref{1}, access_right::none}};
  const access_list other{{device_ref{1}, access_right::none}, {device_ref{0}, access_right::read}};
  CHECK(one == other);
  CHECK(one != access_list{{device_ref{0}, access_right::read}});
  CHECK(access_list{} == access_list{std::vector<access_desc>{}});
}

TEST_CASE("access_list: copies share the entries and do not throw") {
  static_assert(std::is_nothrow_copy_constructible_v<access_list>);
  static_assert(std::is_nothrow_copy_assignable_v<access_list>);
  const access_list list{{device_ref{0}, access_right::read}};
  const access_list copy{list};  // NOLINT(performance-unnecessary-copy-initialization)
  CHECK(&copy.entries() == &list.entries());
}

TEST_CASE("all_reachable_peers: lists the devices with a link, each with the right, and no other") {
  const access_list list = all_reachable_peers(first_device, access_right::read);
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref each{ordinal};
    const bool expected = each != first_device && each.can_access_peer(first_device);
    CHECK(list.find(each).has_value() == expected);
    if (expected) CHECK(list.find(each) == access_right::read);
  }
  CHECK_THROWS_AS(static_cast<void>(all_reachable_peers(device_ref{device_count()})),
                  std::invalid_argument);
}

TEST_CASE("access_map: a list sets what it names, and leaves the others the default") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  CHECK(access_map{first_device, {}} == access_map{first_device});
  const access_map shared{first_device, {{peer, access_right::read}}};
  CHECK(shared.get(first_device) == access_right::read_write);
  CHECK(shared.get(peer) == access_right::read);
  const access_map closed{first_device, {{first_device, access_right::none}}};
  CHECK(closed.entries().empty());
}

TEST_CASE("access_map: list() asks for the same rights") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  for (const access_right own :
       {access_right::none, access_right::read, access_right::read_write}) {
    const access_map map{first_device, {{first_device, own}, {peer, access_right::read}}};
    CHECK(access_map{first_device, map.list()} == map);
  }
}

TEST_CASE("access_map: a list with a device that does not exist throws invalid_argument") {
  CHECK_THROWS_AS((access_map{first_device, {{device_ref{device_count()}, access_right::read}}}),
                  std::invalid_argument);
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
