// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/topology/peer_link.hpp>

#include <hipvmm/runtime/device.hpp>
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

constexpr device_ref host_0{0};
constexpr device_ref host_1{1};
constexpr device_ref host_2{2};

TEST_CASE("peer_link_between: follows the links of the machine, in both directions") {
  for (const peer_link& each : peer_links()) {
    const bool reached = each.device != host_2 && each.peer != host_2;
    CHECK(each.can_access == reached);
    CHECK(each.access_supported == reached);
    CHECK(each.native_atomics == false);
    CHECK(each.array_access == false);
  }
}

HIPVMM_TEST_CASE_IN("peer_link_between: AMD reports the type and hops, with access or without",
                    {"HIPVMM_HOST_PROFILE=rocm-7.2"}) {
  for (const device_ref peer : {host_1, host_2}) {
    const peer_link link = peer_link_between(host_0, peer);
    CHECK(link.type == link_type::pcie);
    CHECK(link.hops == 1U);
    // AMD's answer is the number of the type.
    CHECK(link.performance_rank == std::nullopt);
  }
}

HIPVMM_TEST_CASE_IN("peer_link_between: CUDA reports a rank, and neither type nor hops",
                    {"HIPVMM_HOST_PROFILE=cuda-13"}) {
  const peer_link link = peer_link_between(host_0, host_1);
  CHECK(link.type == link_type::unknown);
  CHECK(link.hops == std::nullopt);
  CHECK(link.performance_rank == 0);
  CHECK(peer_link_between(host_0, host_2).performance_rank == 1);
  CHECK(hipPeekAtLastError() == hipSuccess);
}

HIPVMM_TEST_CASE_IN("peer_links: two devices have two links",
                    {"HIPVMM_HOST_DEVICES=2", "HIPVMM_HOST_PEERS=none"}) {
  const std::vector<peer_link> links = peer_links();
  REQUIRE(links.size() == 2);
  CHECK(links[0].peer == host_1);
  CHECK(links[1].peer == host_0);
  CHECK_FALSE(links[0].can_access);
}

HIPVMM_TEST_CASE_IN("peer_links: one device has none",
                    {"HIPVMM_HOST_DEVICES=1", "HIPVMM_HOST_PEERS=none"}) {
  CHECK(peer_links().empty());
  CHECK(peer_links(host_0).empty());
}

TEST_CASE("peer_link_between: what the runtime cannot report is unknown") {
  for (const char* error : {"hipErrorInvalidHandle", "hipErrorNotSupported"}) {
    const planned_faults plan{std::string{"hipExtGetLinkTypeAndHopCount error="} + error +
                              "; hipDeviceGetP2PAttribute error=" + error};
    const peer_link link = peer_link_between(host_0, host_1);
    CHECK(link.can_access);
    CHECK(link.type == link_type::unknown);
    CHECK(link.hops == std::nullopt);
    CHECK(link.performance_rank == std::nullopt);
    CHECK(link.access_supported == std::nullopt);
    CHECK(link.native_atomics == std::nullopt);
    CHECK(link.array_access == std::nullopt);
    CHECK(hipPeekAtLastError() == hipSuccess);
  }
}

TEST_CASE("peer_links: any HIP call that fails is thrown and leaves nothing") {
  fault_sweep{"peer_link_between"}.run(
      [] { static_cast<void>(peer_link_between(host_0, host_1)); });
  fault_sweep{"peer_links"}.run([] { static_cast<void>(peer_links()); });
}

}  // namespace
}  // namespace hipvmm::test
