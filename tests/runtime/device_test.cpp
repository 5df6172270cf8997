// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device.hpp>
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("device_ref: compares by ordinal") {
  CHECK(device_ref{1} == device_ref{1});
  CHECK(device_ref{1} != device_ref{2});
  CHECK(device_ref{1} < device_ref{2});
  CHECK_FALSE(device_ref{2} < device_ref{2});
}

TEST_CASE("device_ref: current is the first device in a new thread") {
  int ordinal = -1;
  std::thread{[&] { ordinal = device_ref::current().ordinal(); }}.join();
  CHECK(ordinal == 0);
}

TEST_CASE("device_ref: a device has a name and memory") {
  CHECK_FALSE(first_device.name().empty());
  CHECK(first_device.total_memory() > 0);
  CHECK(first_device.free_memory() > 0);
  CHECK(first_device.free_memory() <= first_device.total_memory());
}

TEST_CASE("available_device_memory: tells of the current device, or of the one named") {
  CHECK(available_device_memory().second == available_device_memory(first_device).second);
  CHECK(available_device_memory().first <= available_device_memory().second);
  CHECK(available_device_memory(first_device).second > 0);
}

TEST_CASE("percent_of_free_device_memory: is a multiple of 256 at or below the share") {
  CHECK(percent_of_free_device_memory(0) == 0);
  CHECK(percent_of_free_device_memory(first_device, 100) <= first_device.total_memory());
  for (const int percent : {1, 33, 50, 99})
    CHECK(percent_of_free_device_memory(percent) % 256 == 0);
}

TEST_CASE("percent_of_free_device_memory: less than nothing and more than all are refused") {
  for (const int percent : {-1, 101}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(percent_of_free_device_memory(percent)),
                         doctest::Contains((std::to_string(percent) + " %").c_str()),
                         std::invalid_argument);
  }
}

TEST_CASE("device_ref: a device reaches itself") {
  CHECK(first_device.can_access_peer(first_device));
}

TEST_CASE("device_ref: synchronize returns on an idle device") {
  CHECK_NOTHROW(first_device.synchronize());
}

TEST_CASE("require_device: accepts every device that exists") {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal)
    CHECK_NOTHROW(require_device(device_ref{ordinal}));
}

TEST_CASE("require_device: an unknown device is named together with the count") {
  const int count = device_count();
  for (const int unknown : {-1, count, 1000}) {
    CHECK_THROWS_WITH_AS(require_device(device_ref{unknown}),
                         doctest::Contains(("device " + std::to_string(unknown)).c_str()),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(require_device(device_ref{unknown}),
                         doctest::Contains((std::to_string(count) + " device").c_str()),
                         std::invalid_argument);
  }
}

TEST_CASE("device_ref: every question about an unknown device throws invalid_argument") {
  const device_ref unknown{device_count()};
  CHECK_THROWS_AS(static_cast<void>(unknown.name()), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(unknown.total_memory()), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(unknown.free_memory()), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(unknown.can_access_peer(first_device)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(first_device.can_access_peer(unknown)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(available_device_memory(unknown)), std::invalid_argument);
  CHECK_THROWS_AS(unknown.synchronize(), std::invalid_argument);
}

TEST_CASE("scoped_device: an unknown device throws and leaves the current one") {
  CHECK_THROWS_AS(scoped_device{device_ref{device_count()}}, std::invalid_argument);
  CHECK(device_ref::current() == first_device);
}

std::optional<device_ref> second_device() {
  return device_count() > 1 ? std::optional{device_ref{1}} : std::nullopt;
}

TEST_CASE("scoped_device: makes a device current and restores the one before") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  {
    const scoped_device scope{second};
    CHECK(device_ref::current() == second);
  }
  CHECK(device_ref::current() == first_device);
}

TEST_CASE("scoped_device: scopes nest") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  const scoped_device outer{second};
  {
    const scoped_device inner{first_device};
    CHECK(device_ref::current() == first_device);
    const scoped_device same{first_device};
    CHECK(device_ref::current() == first_device);
  }
  CHECK(device_ref::current() == second);
}

TEST_CASE("scoped_device: restores when its body throws") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  try {
    const scoped_device scope{second};
    throw std::runtime_error{"body"};
  } catch (const std::runtime_error&) {
  }
  CHECK(device_ref::current() == first_device);
}

TEST_CASE("scoped_device: concerns the calling thread only") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  const scoped_device scope{second};
  device_ref elsewhere{-1};
  std::thread{[&] { elsewhere = device_ref::current(); }}.join();
  CHECK(elsewhere == first_device);
}

}  // namespace
}  // namespace hipvmm::test
