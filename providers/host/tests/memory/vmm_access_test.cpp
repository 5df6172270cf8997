// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <array>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr auto no_access = hipMemAccessFlagsProtNone;
constexpr auto read_only = hipMemAccessFlagsProtRead;
constexpr auto read_write = hipMemAccessFlagsProtReadWrite;

hipError_t set_access(const mapped& memory, std::initializer_list<hipMemAccessDesc> wanted) {
  return hipMemSetAccess(memory.at(), granule, wanted.begin(), wanted.size());
}

hipMemAccessDesc at_location(int type, int id) {
  return {{not_an_enumerator<hipMemLocationType>(type), id}, read_write};
}

}  // namespace

TIDY_CASE("hipMemSetAccess: arguments outside the rules are refused and change nothing") {
  const reservation addresses{4 * granule};
  {
    const memory chunk{2 * granule};
    const memory small{granule};
    REQUIRE(hipMemMap(addresses.at(), 2 * granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemMap(addresses.at(2 * granule), granule, 0, small.get(), 0) == hipSuccess);
  }
  const allocation device{granule};
  const hipMemAccessDesc good = access_of(0);
  const hipMemAccessDesc host = at_location(2, 0);
  const hipMemAccessDesc write_only = access_of(0, not_an_enumerator<hipMemAccessFlags>(2));
  const hipMemAccessDesc odd = access_of(0, not_an_enumerator<hipMemAccessFlags>(-1));
  const hipMemAccessDesc stranger = access_of(2);
  const std::array second_is_bad{access_of(1), write_only};
  const auto set = [&](std::size_t offset, std::size_t bytes, const hipMemAccessDesc* wanted,
                       std::size_t count = 1) {
    return hipMemSetAccess(addresses.at(offset), bytes, wanted, count);
  };
  check_refusals({
      {"a byte more than is mapped", set(0, 3 * granule + 1, &good)},
      {"a byte less than is mapped", set(0, 3 * granule - 1, &good)},
      {"from the middle of a mapping", set(granule, 2 * granule, &good)},
      {"hipMalloc memory", hipMemSetAccess(device.at(), granule, &good, 1)},
      {"the host", set(0, 3 * granule, &host)},
      {"unknown flags", set(0, 3 * granule, &odd)},
      {"one bad entry of two", set(0, 3 * granule, second_is_bad.data(), 2)},
      {"a device without a link to the owner", set(0, 3 * granule, &stranger),
       hipErrorInvalidDevice},
  });
  for (int user = 0; user < 3; ++user) CHECK(access_at(addresses.at(), user) == no_access);
  CHECK(hipMemUnmap(addresses.at(), 3 * granule) == hipSuccess);
}

TIDY_CASE("hipMemGetAccess: arguments outside the rules are refused") {
  const mapped mapping{granule};
  const reservation unmapped{granule};
  unsigned long long flags = 0;
  const hipMemLocation good{hipMemLocationTypeDevice, 0};
  const hipMemLocation negative{hipMemLocationTypeDevice, -1};
  check_refusals({
      {"null flags", hipMemGetAccess(nullptr, &good, mapping.at())},
      {"null location", hipMemGetAccess(&flags, nullptr, mapping.at())},
      {"negative device", hipMemGetAccess(&flags, &negative, mapping.at())},
  });
}

TIDY_CASE("hipMemSetAccess: a mapping starts closed to every device") {
  const mapped mapping{granule, {}};
  for (int device = 0; device < 3; ++device) CHECK(access_at(mapping.at(), device) == no_access);
}

TIDY_CASE("hipMemSetAccess: devices that are not named keep their rights") {
  const mapped mapping{granule, {0}};
  CHECK(set_access(mapping, {access_of(1, read_only)}) == hipSuccess);
  CHECK(access_at(mapping.at(), 0) == read_write);
  CHECK(access_at(mapping.at(granule - 1), 1) == read_only);
  CHECK(set_access(mapping, {access_of(0, no_access)}) == hipSuccess);
  CHECK(access_at(mapping.at(), 0) == no_access);
  CHECK(access_at(mapping.at(), 1) == read_only);
}

TIDY_CASE("hipMemSetAccess: of a device named twice the last entry counts") {
  const mapped mapping{granule, {}};
  CHECK(set_access(mapping, {access_of(0, read_write), access_of(0, read_only)}) == hipSuccess);
  CHECK(access_at(mapping.at(), 0) == read_only);
}

TIDY_CASE("hipMemSetAccess: one call covers neighbouring mappings of several owners") {
  const reservation addresses{2 * granule};
  for (int owner = 0; owner < 2; ++owner) {
    const memory chunk{granule, owner};
    const std::size_t offset = static_cast<std::size_t>(owner) * granule;
    REQUIRE(hipMemMap(addresses.at(offset), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  const hipMemAccessDesc wanted = access_of(0);
  CHECK(hipMemSetAccess(addresses.at(), 2 * granule, &wanted, 1) == hipSuccess);
  CHECK(access_at(addresses.at(granule), 0) == read_write);
  CHECK(hipMemUnmap(addresses.at(), 2 * granule) == hipSuccess);
}

TIDY_CASE("hipMemSetAccess: revoking a device that cannot reach the owner is allowed") {
  const mapped mapping{granule, {0}};
  CHECK(set_access(mapping, {access_of(2, no_access)}) == hipSuccess);
}

TIDY_CASE("hipMemSetAccess: host code may touch what a device may") {
  const mapped mapping{granule, {1}};
  *mapping.at(5) = std::byte{42};
  mapping.give(1, read_only);
  CHECK(*mapping.at(5) == std::byte{42});
}

HIPVMM_CHILD("host code reads memory that is closed") {
  const mapped mapping{granule, {}};
  const volatile std::byte* const closed = mapping.at();
  static_cast<void>(*closed);
}

HIPVMM_CHILD("host code writes memory that devices may only read") {
  const mapped mapping{granule, {}};
  mapping.give(0, read_only);
  volatile std::byte* const readable = mapping.at();
  static_cast<void>(*readable);
  *readable = std::byte{1};
}

TEST_CASE("hipMemSetAccess: host code that touches what no device may is stopped") {
  for (const char* each : {"host code reads memory that is closed",
                           "host code writes memory that devices may only read"}) {
    const child_result result = run_child(each);
    CAPTURE(result.output);
    CHECK(was_segv(result));
  }
}

TIDY_CASE("hipMemSetAccess: a peer is let in by access to these bytes, not by peer access") {
  const mapped mapping{granule};
  const stream of_peer{hipStreamNonBlocking, 1};
  REQUIRE(hipSetDevice(1) == hipSuccess);
  REQUIRE(hipDeviceEnablePeerAccess(0, 0) == hipSuccess);
  CHECK(hipMemsetAsync(mapping.at(), 1, granule, of_peer.get()) == hipErrorInvalidValue);
  REQUIRE(hipDeviceDisablePeerAccess(0) == hipSuccess);
  REQUIRE(hipSetDevice(0) == hipSuccess);
  mapping.give(1, read_write);
  CHECK(hipMemsetAsync(mapping.at(), 1, granule, of_peer.get()) == hipSuccess);
  CHECK(of_peer.wait() == hipSuccess);
}
