// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/access.hpp>

#include <hipvmm/runtime/topology/peer_link.hpp>
#include "support/device_bytes.hpp"
#include "support/host/host_test.hpp"
#include "support/region/mapped_chunk.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

// Whether a copy without the right fails is the runtime's choice; the host provider checks each.
TEST_CASE("access_right: read lets a device read and not write") {
  const stream stream;
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  write_bytes(stream, mapped.map.get(), pattern(64, 1));
  set_access(mapped.map.get(), mapped.map.bytes(), {first_device, access_right::read});
  CHECK(read_bytes(stream, mapped.map.get(), 64) == pattern(64, 1));
  CHECK_THROWS_AS(write_bytes(stream, mapped.map.get(), pattern(64, 2)), hip_error);
}

TEST_CASE("access_right: none lets a device neither read nor write") {
  const stream stream;
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  set_access(mapped.map.get(), mapped.map.bytes(), {first_device, access_right::none});
  CHECK_THROWS_AS(static_cast<void>(read_bytes(stream, mapped.map.get(), 64)), hip_error);
  CHECK_THROWS_AS(write_bytes(stream, mapped.map.get(), pattern(64, 2)), hip_error);
}

TEST_CASE("access_right: a peer's right holds for the peer's streams") {
  HIPVMM_SKIP_UNDER(owner_copies);
  const device_ref peer{1};
  const stream of_peer{peer};
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  CHECK_THROWS_AS(write_bytes(of_peer, mapped.map.get(), pattern(64, 3)), hip_error);
  access_map rights{first_device};
  rights.set(peer, access_right::read_write);
  rights.apply(mapped.map.get(), mapped.map.bytes());
  write_bytes(of_peer, mapped.map.get(), pattern(64, 3));
  CHECK(read_bytes(of_peer, mapped.map.get(), 64) == pattern(64, 3));
}

TEST_CASE("access_map: the text for a device without a link names devices 2 and 0") {
  access_map rights{device_ref{0}};
  CHECK_THROWS_WITH_AS(rights.set(device_ref{2}, access_right::read),
                       doctest::Contains("device 2 cannot reach the memory of device 0"),
                       unsupported);
}

TEST_CASE("access_map: the text for a device without access says how the devices are connected") {
  const peer_link link = peer_link_between(device_ref{2}, device_ref{0});
  const std::string expected = link.type == link_type::unknown
                                   ? std::string{"HIP reports no link between them"}
                                   : "the link between them is " + std::string{name_of(link.type)} +
                                         ", hops: " + std::to_string(link.hops.value_or(0));
  access_map rights{device_ref{0}};
  CHECK_THROWS_WITH_AS(rights.set(device_ref{2}, access_right::read),
                       doctest::Contains(expected.c_str()), unsupported);
  // If the question fails too, the answer to the first one is still given.
  const planned_fault fault{"hipExtGetLinkTypeAndHopCount", 1, hipErrorUnknown};
  CHECK_THROWS_WITH_AS(rights.set(device_ref{2}, access_right::read),
                       doctest::Contains("HIP does not say how they are connected"), unsupported);
  CHECK(hipPeekAtLastError() == hipSuccess);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
