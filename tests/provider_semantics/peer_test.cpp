// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "fixtures.hpp"
#include "rules.hpp"
#include "support/devices.hpp"

using namespace hipvmm::test;

namespace {

class on_device {
 public:
  explicit on_device(int device) { REQUIRE(hipSetDevice(device) == hipSuccess); }
  ~on_device() { CHECK(hipSetDevice(0) == hipSuccess); }
  on_device& operator=(on_device&&) = delete;
};

unsigned long long peer_rights_at(std::byte* at, int device) {
  unsigned long long flags = 77;
  const hipMemLocation where{hipMemLocationTypeDevice, device};
  REQUIRE(hipMemGetAccess(&flags, &where, at) == hipSuccess);
  return flags;
}

}  // namespace

TEST_CASE("peer: a device is none of its own") {
  int value = 9;
  check_rules({
      {"can", [&] { return hipDeviceCanAccessPeer(&value, 0, 0); }, hipSuccess},
      {"enable", [] { return hipDeviceEnablePeerAccess(0, 0); }, hipErrorInvalidDevice},
      {"enable no such device", [] { return hipDeviceEnablePeerAccess(no_device, 0); },
       hipErrorInvalidDevice},
      {"disable itself", [] { return hipDeviceDisablePeerAccess(0); },
       hipErrorPeerAccessNotEnabled},
      {"ask of its link to itself",
       [&] { return hipDeviceGetP2PAttribute(&value, hipDevP2PAttrAccessSupported, 0, 0); },
       hipErrorInvalidDevice},
      {"ask with no attribute",
       [&] { return hipDeviceGetP2PAttribute(&value, no_such<hipDeviceP2PAttr>(40), 0, 0); }},
  });
}

TEST_CASE("peer: the link type of two devices is asked for with two devices and two results") {
  std::uint32_t type = 77;
  std::uint32_t hops = 77;
  const auto link = [&](int device, int peer) {
    return hipExtGetLinkTypeAndHopCount(device, peer, &type, &hops);
  };
  check_rules({
      {"without a type", [&] { return hipExtGetLinkTypeAndHopCount(0, 1, nullptr, &hops); }},
      {"without hops", [&] { return hipExtGetLinkTypeAndHopCount(0, 1, &type, nullptr); }},
      {"of a device and itself", [&] { return link(0, 0); }},
      {"of no device and itself", [&] { return link(no_device, no_device); }},
      {"of a negative device", [&] { return link(-1, 0); }},
      {"to a negative device", [&] { return link(0, -1); }},
      {"of no such device", [&] { return link(no_device, 0); }, hipErrorInvalidDevice},
      {"to no such device", [&] { return link(0, no_device); }, hipErrorInvalidDevice},
  });
  CHECK(type == 77);
  CHECK(hops == 77);
}

TEST_CASE("peer: a link has a type and hops, or neither is reported") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  std::uint32_t type = 77;
  std::uint32_t hops = 77;
  const hipError_t code = hipExtGetLinkTypeAndHopCount(0, peer.ordinal(), &type, &hops);
  CHECK((code == hipSuccess || code == hipErrorNotSupported));
  CHECK((type == 77) == (code == hipErrorNotSupported));
  CHECK((hops == 77) == (code == hipErrorNotSupported));
  static_cast<void>(hipGetLastError());
}

TEST_CASE("peer: access is enabled once and disabled once") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  int value = 0;
  check_rules({
      {"disable first", [&] { return hipDeviceDisablePeerAccess(other); },
       hipErrorPeerAccessNotEnabled},
      {"with flags", [&] { return hipDeviceEnablePeerAccess(other, 1); }},
      {"enable", [&] { return hipDeviceEnablePeerAccess(other, 0); }, hipSuccess},
      {"again", [&] { return hipDeviceEnablePeerAccess(other, 0); },
       hipErrorPeerAccessAlreadyEnabled},
      {"disable the other way",
       [&] {
         REQUIRE(hipSetDevice(other) == hipSuccess);
         const hipError_t code = hipDeviceDisablePeerAccess(0);
         REQUIRE(hipSetDevice(0) == hipSuccess);
         return code;
       },
       hipErrorPeerAccessNotEnabled},
      {"disable", [&] { return hipDeviceDisablePeerAccess(other); }, hipSuccess},
      {"again", [&] { return hipDeviceDisablePeerAccess(other); }, hipErrorPeerAccessNotEnabled},
      {"supported",
       [&] { return hipDeviceGetP2PAttribute(&value, hipDevP2PAttrAccessSupported, 0, other); },
       hipSuccess},
  });
  CHECK(value == 1);
}

TEST_CASE("peer: is granted access to a chunk, and the owner keeps its own") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  mapped one{1};
  one.open(0);
  one.open(other);
  CHECK(peer_rights_at(one.at(), 0) == hipMemAccessFlagsProtReadWrite);
  CHECK(peer_rights_at(one.at(), other) == hipMemAccessFlagsProtReadWrite);
  {
    const on_device scope{other};
    CHECK(fill_and_wait(one.at(), 0x31, granule()) == hipSuccess);
  }
  CHECK(byte_at(one.at(0, 9)) == 0x31);
  one.open(other, hipMemAccessFlagsProtNone);
  CHECK(peer_rights_at(one.at(), other) == hipMemAccessFlagsProtNone);
  CHECK(peer_rights_at(one.at(), 0) == hipMemAccessFlagsProtReadWrite);
}

TEST_CASE("peer: alone is granted access to a chunk") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  mapped one{1};
  one.open(other);
  CHECK(peer_rights_at(one.at(), 0) == hipMemAccessFlagsProtNone);
  CHECK(peer_rights_at(one.at(), other) == hipMemAccessFlagsProtReadWrite);
}

TEST_CASE("peer: chunks of two devices stand side by side") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  const addresses place{2};
  const chunk here{1, 0};
  const chunk there{1, other};
  REQUIRE(hipMemMap(place.at(0), granule(), 0, here.get(), 0) == hipSuccess);
  REQUIRE(hipMemMap(place.at(1), granule(), 0, there.get(), 0) == hipSuccess);
  const hipMemAccessDesc both[] = {open_to(0), open_to(other)};
  REQUIRE(hipMemSetAccess(place.at(0), 2 * granule(), both, 2) == hipSuccess);
  REQUIRE(fill_and_wait(place.at(0), 0x7C, 2 * granule()) == hipSuccess);
  CHECK(byte_at(place.at(0)) == 0x7C);
  CHECK(byte_at(place.at(1, 5)) == 0x7C);
  CHECK(hipMemUnmap(place.at(0), 2 * granule()) == hipSuccess);
}

TEST_CASE("peer: copies go between devices, without peer access too") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  const allocation here{4096};
  void* there = nullptr;
  {
    const on_device scope{other};
    REQUIRE(hipMalloc(&there, 4096) == hipSuccess);
    REQUIRE(fill_and_wait(there, 0x58, 4096) == hipSuccess);
  }
  CHECK(hipMemcpyPeer(here.get(), 0, there, other, 4096) == hipSuccess);
  CHECK(byte_at(here.get() + 77) == 0x58);
  REQUIRE(fill_and_wait(here.get(), 0, 4096) == hipSuccess);
  CHECK(hipMemcpy(here.get(), there, 4096, hipMemcpyDefault) == hipSuccess);
  CHECK(byte_at(here.get() + 78) == 0x58);
  check_rules({
      {"to no such device",
       [&] { return hipMemcpyPeer(here.get(), no_device, there, other, 4096); },
       hipErrorInvalidDevice},
      {"from null", [&] { return hipMemcpyPeer(here.get(), 0, nullptr, other, 4096); }},
  });
  CHECK(hipFree(there) == hipSuccess);
}

TEST_CASE("peer: work for a stream goes to the stream's device, whichever is current") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  const own_stream stream;
  const allocation here{4096};
  {
    const on_device scope{other};
    CHECK(hipGetStreamDeviceId(stream.get()) == 0);
    CHECK(hipMemsetAsync(here.get(), 0x19, 4096, stream.get()) == hipSuccess);
    CHECK(hipStreamSynchronize(stream.get()) == hipSuccess);
    int device = -1;
    REQUIRE(hipGetDevice(&device) == hipSuccess);
    CHECK(device == other);
  }
  CHECK(byte_at(here.get() + 1) == 0x19);
}

TEST_CASE("peer: an event is recorded in streams of its device only") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  hipEvent_t event = nullptr;
  {
    const on_device scope{other};
    REQUIRE(hipEventCreateWithFlags(&event, hipEventDisableTiming) == hipSuccess);
  }
  const own_stream stream;
  check_rules(
      {{"record", [&] { return hipEventRecord(event, stream.get()); }, hipErrorInvalidHandle}});
  CHECK(hipEventDestroy(event) == hipSuccess);
}
