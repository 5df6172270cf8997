// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_device_vector.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include <hipvmm/core/error.hpp>
#include "support/devices.hpp"
#include "support/element.hpp"
#include "support/region/fallback.hpp"

namespace hipvmm::test::growable_device_vector_access_test {
namespace {

using value = element<8>;
using device_vector = growable_device_vector<value>;

TEST_CASE("growable_device_vector: its own device may read and write, no other may do anything") {
  const device_vector vector;
  CHECK(vector.access(first_device) == access_right::read_write);
  CHECK(vector.access(device_ref{1}) == access_right::none);
}

TEST_CASE("growable_device_vector: a grant reaches the elements there are and those to come") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream;
  const hipvmm::stream of_peer{peer};
  device_vector vector;
  vector.append(series<value>(0, 1000), stream);
  vector.grant(peer, peer_right());
  vector.append(series<value>(1000, 1'000'000), stream);
  stream.synchronize();
  CHECK(vector.access(peer) == peer_right());
  CHECK(vector.copy_to_host(of_peer) == series<value>(0, 1'001'000));
}

TEST_CASE("growable_device_vector: a grant to write lets the other device's streams write") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream;
  const hipvmm::stream of_peer{peer};
  device_vector vector;
  vector.grant(peer);
  vector.append(series<value>(0, 10), stream);
  stream.synchronize();
  vector.set_element(3, numbered<value>(99), of_peer);
  of_peer.synchronize();
  CHECK(vector.element(3, stream) == numbered<value>(99));
}

TEST_CASE("growable_device_vector: revoke takes the right from all elements") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  device_vector vector;
  vector.grant(peer);
  vector.resize_uninitialized(10);
  vector.reserve(vector.capacity() + 1);
  vector.revoke(peer);
  CHECK(vector.access(peer) == access_right::none);
  if (!on_fallback()) CHECK(get_access(vector.data(), peer) == access_right::none);
  if (!on_fallback())
    CHECK(get_access(vector.data() + vector.capacity() - 1, peer) == access_right::none);
  vector.reserve(vector.capacity() + 1);
  if (!on_fallback())
    CHECK(get_access(vector.data() + vector.capacity() - 1, peer) == access_right::none);
}

TEST_CASE("growable_device_vector: a device without a link throws unsupported and gets nothing") {
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "device that cannot reach the first");
  device_vector vector;
  vector.resize_uninitialized(10);
  CHECK_THROWS_AS(vector.grant(stranger), unsupported);
  CHECK(vector.access(stranger) == access_right::none);
  if (!on_fallback()) CHECK(get_access(vector.data(), stranger) == access_right::none);
}

TEST_CASE("growable_device_vector: an unknown device throws invalid_argument") {
  device_vector vector;
  CHECK_THROWS_AS(vector.grant(device_ref{device_count()}), std::invalid_argument);
  CHECK_THROWS_AS(vector.revoke(device_ref{-1}), std::invalid_argument);
}

TEST_CASE("growable_device_vector: one on another device grows, shrinks and keeps its elements") {
  if (device_count() < 2) {
    MESSAGE("skipped: this machine has no second device");
    return;
  }
  const device_ref second{1};
  const stream stream{second};
  device_vector vector{second};
  vector.append(series<value>(0, 1'000'000), stream);
  const value* const data = vector.data();
  vector.resize(600'000, stream);
  vector.shrink_to_fit(stream, tail_chunk::replace);
  vector.resize(700'000, numbered<value>(5), stream);
  std::vector<value> expected = series<value>(0, 600'000);
  expected.resize(700'000, numbered<value>(5));
  CHECK(vector.copy_to_host(stream) == expected);
  CHECK((vector.data() == data) == vector.is_address_stable());
  CHECK(vector.device() == second);
  CHECK(device_ref::current() == first_device);
}

}  // namespace
}  // namespace hipvmm::test::growable_device_vector_access_test
