// SPDX-License-Identifier: MIT
// Each in a process of its own: on CUDA a reset takes all that the process has on the device.
#include <doctest/doctest.h>

#include "fixtures.hpp"
#include "rules.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm::test;

namespace {

constexpr const char* unlinks = "loses its peers in a reset";

void* allocate() {
  void* start = nullptr;
  REQUIRE(hipMalloc(&start, 1 << 20) == hipSuccess);
  return start;
}

}  // namespace

// Streams and events are gone as well, but their handles are CUDA's to follow:
// providers/cuda/README.md.
HIPVMM_TEST_CASE_IN("hipDeviceReset: memory from before is gone", {}) {
  void* const before = allocate();
  REQUIRE(fill_and_wait(before, 1, 4096) == hipSuccess);
  check_rules({
      {"reset", [] { return hipDeviceReset(); }, hipSuccess},
      {"free", [&] { return hipFree(before); }},
      {"what it is",
       [&] {
         hipDeviceptr_t base = nullptr;
         return hipMemGetAddressRange(&base, nullptr, before);
       },
       hipErrorNotFound},
  });
}

HIPVMM_TEST_CASE_IN("hipDeviceReset: the device can be used again", {}) {
  // A stream and memory that nobody releases.
  hipStream_t left = nullptr;
  REQUIRE(hipStreamCreate(&left) == hipSuccess);
  REQUIRE(hipMemsetAsync(allocate(), 1, 4096, left) == hipSuccess);
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    CHECK(hipDeviceReset() == hipSuccess);
    int device = -1;
    CHECK(hipGetDevice(&device) == hipSuccess);
    CHECK(device == 0);
    const allocation memory{4096};
    CHECK(fill_and_wait(memory.get(), 0x5A, 4096) == hipSuccess);
    CHECK(byte_at(memory.get() + 4095) == 0x5A);
    const own_stream stream;
    CHECK(hipMemsetAsync(memory.get(), 0xA5, 4096, stream.get()) == hipSuccess);
    CHECK(hipStreamSynchronize(stream.get()) == hipSuccess);
    CHECK(byte_at(memory.get()) == 0xA5);
    mapped chunk{1};
    chunk.open();
    CHECK(fill_and_wait(chunk.at(), 0x3C, granule()) == hipSuccess);
    CHECK(byte_at(chunk.at(0, 7)) == 0x3C);
    CHECK(hipDeviceSynchronize() == hipSuccess);
  }
}

TEST_CASE("hipDeviceReset: access to a peer is to be enabled again") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  static_cast<void>(peer);
  check_child(unlinks);
}

HIPVMM_CHILD("loses its peers in a reset") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const int other = peer.ordinal();
  check_rules({
      {"enable", [&] { return hipDeviceEnablePeerAccess(other, 0); }, hipSuccess},
      {"reset", [] { return hipDeviceReset(); }, hipSuccess},
      {"disable", [&] { return hipDeviceDisablePeerAccess(other); }, hipErrorPeerAccessNotEnabled},
      {"enable again", [&] { return hipDeviceEnablePeerAccess(other, 0); }, hipSuccess},
      {"disable again", [&] { return hipDeviceDisablePeerAccess(other); }, hipSuccess},
  });
}
