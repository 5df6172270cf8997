// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <numeric>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include "kernels/kernels.hpp"
#include "support/devices.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm;
using namespace hipvmm::test;

namespace {

constexpr const char* peer_writes = "a kernel of a peer writes what it may only read";

}  // namespace

TEST_CASE("growable_device_vector: a peer's kernel writes old elements and those after growth") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  constexpr std::size_t step = 3'000'000;
  constexpr std::size_t steps = 4;
  const stream own{first_device};
  const stream of_peer{peer};
  growable_device_vector<unsigned> vector{first_device};
  vector.resize(step, own);
  vector.grant(peer);
  unsigned* const base = vector.data();
  for (std::size_t size = step; size <= steps * step; size += step) {
    vector.resize(size, own);
    own.synchronize();
    const scoped_device current{peer};
    REQUIRE(launch_number(base, size - step, size, of_peer.get()) == 0);
  }
  of_peer.synchronize();
  CHECK(vector.data() == base);
  CHECK(vector.statistics().chunks > 1);
  std::vector<unsigned> expected(steps * step);
  std::iota(expected.begin(), expected.end(), 0U);
  CHECK(vector.copy_to_host(own) == expected);
}

TEST_CASE("growable_device_vector: a peer's kernel cannot write what it was granted to read") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  CAPTURE(peer.ordinal());
  check_child(peer_writes);
}

HIPVMM_CHILD("a kernel of a peer writes what it may only read") {
  const device_ref peer = peer_of(first_device).value();
  // Left to the end of the process: after a fault nothing can be released.
  auto& vector = *new growable_device_vector<unsigned>{first_device};
  const stream own{first_device};
  vector.append({5U}, own);
  vector.grant(peer, access_right::read);
  own.synchronize();
  const stream of_peer{peer};
  const scoped_device current{peer};
  growable_device_vector<unsigned>& result = *new growable_device_vector<unsigned>{peer};
  result.resize(1, of_peer);
  REQUIRE(launch_read(vector.data(), result.data(), of_peer.get()) == 0);
  CHECK(result.element(0, of_peer) == 5);
  REQUIRE(launch_write(vector.data(), 6, of_peer.get()) == 0);
  CHECK(hipDeviceSynchronize() == hipErrorIllegalAddress);
}
