// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

hipMemAllocationProp chunk_at_location(int type, int id) {
  hipMemAllocationProp properties = chunk_on(0);
  properties.location = {not_an_enumerator<hipMemLocationType>(type), id};
  return properties;
}

}  // namespace

TEST_CASE("hipMemGetAllocationGranularity: arguments outside the rules are refused") {
  size_t bytes = 0;
  const hipMemAllocationProp good = chunk_on(0);
  const hipMemAllocationProp negative = chunk_at_location(hipMemLocationTypeDevice, -1);
  constexpr auto minimum = hipMemAllocationGranularityMinimum;
  check_refusals({
      {"null result", hipMemGetAllocationGranularity(nullptr, &good, minimum)},
      {"null properties", hipMemGetAllocationGranularity(&bytes, nullptr, minimum)},
      {"negative device", hipMemGetAllocationGranularity(&bytes, &negative, minimum)},
  });
  static_cast<void>(hipGetLastError());
}

TIDY_CASE("hipMemAddressReserve: arguments outside the rules are refused") {
  void* start = nullptr;
  const std::size_t everything = SIZE_MAX / granule * granule;
  check_refusals({
      {"more than there is", hipMemAddressReserve(&start, everything, 0, nullptr, 0),
       hipErrorOutOfMemory},
      {"alignment beyond what there is",
       hipMemAddressReserve(&start, granule, std::size_t{1} << 63U, nullptr, 0),
       hipErrorOutOfMemory},
  });
}

TIDY_CASE("hipMemAddressReserve: the start is a multiple of the alignment and the granularity") {
  for (std::size_t alignment : {std::size_t{0}, std::size_t{2}, granule, 64 * granule}) {
    CAPTURE(alignment);
    void* start = nullptr;
    REQUIRE(hipMemAddressReserve(&start, 3 * granule, alignment, nullptr, 0) == hipSuccess);
    CHECK(reinterpret_cast<std::uintptr_t>(start) % granule == 0);
    if (alignment != 0) CHECK(reinterpret_cast<std::uintptr_t>(start) % alignment == 0);
    CHECK(hipMemAddressFree(start, 3 * granule) == hipSuccess);
  }
}

TIDY_CASE("hipMemCreate: arguments outside the rules are refused") {
  hipMemGenericAllocationHandle_t handle = nullptr;
  const hipMemAllocationProp good = chunk_on(0);
  const hipMemAllocationProp shareable = chunk_on(0, hipMemHandleTypePosixFileDescriptor);
  check_refusals({
      {"null handle", hipMemCreate(nullptr, granule, &good, 0)},
      {"beyond the budget", hipMemCreate(&handle, device_budget + granule, &good, 0),
       hipErrorOutOfMemory},
      {"beyond the budget, shareable",
       hipMemCreate(&handle, device_budget + granule, &shareable, 0), hipErrorOutOfMemory},
  });
}

TIDY_CASE("hipMemMap: arguments outside the rules are refused") {
  const reservation addresses{5 * granule};
  const memory chunk{2 * granule};
  const memory small{granule};
  REQUIRE(hipMemMap(addresses.at(), granule, 0, small.get(), 0) == hipSuccess);
  REQUIRE(hipMemMap(addresses.at(2 * granule), 2 * granule, 0, chunk.get(), 0) == hipSuccess);
  int pageable = 0;
  check_refusals({
      {"no bytes", hipMemMap(addresses.at(granule), 0, 0, chunk.get(), 0)},
      {"inside a mapping", hipMemMap(addresses.at(3 * granule), granule, 0, small.get(), 0)},
      {"not reserved", hipMemMap(&pageable, granule, 0, small.get(), 0)},
  });
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
  CHECK(hipMemUnmap(addresses.at(2 * granule), 2 * granule) == hipSuccess);
}

TIDY_CASE("hipMemMap: a range that begins free and ends in a mapping is refused") {
  const reservation addresses{2 * granule};
  const memory chunk{2 * granule};
  const memory small{granule};
  REQUIRE(hipMemMap(addresses.at(granule), granule, 0, small.get(), 0) == hipSuccess);
  CHECK(hipMemMap(addresses.at(), 2 * granule, 0, chunk.get(), 0) == hipErrorInvalidValue);
  CHECK(hipMemUnmap(addresses.at(granule), granule) == hipSuccess);
}

TIDY_CASE("hipMemMap: a mapping over two neighbouring reservations is refused") {
  void* both = nullptr;
  REQUIRE(hipMemAddressReserve(&both, 2 * granule, 0, nullptr, 0) == hipSuccess);
  REQUIRE(hipMemAddressFree(both, 2 * granule) == hipSuccess);
  void* const second_start = static_cast<std::byte*>(both) + granule;
  void* first = nullptr;
  void* second = nullptr;
  REQUIRE(hipMemAddressReserve(&first, granule, 0, both, 0) == hipSuccess);
  REQUIRE(hipMemAddressReserve(&second, granule, 0, second_start, 0) == hipSuccess);
  REQUIRE(first == both);
  REQUIRE(second == second_start);
  const memory chunk{2 * granule};
  CHECK(hipMemMap(first, 2 * granule, 0, chunk.get(), 0) == hipErrorInvalidValue);
  CHECK(hipMemAddressFree(first, granule) == hipSuccess);
  CHECK(hipMemAddressFree(second, granule) == hipSuccess);
}

TIDY_CASE("hipMemUnmap: only whole mappings can be unmapped, and nothing changes otherwise") {
  const reservation addresses{4 * granule};
  {
    const memory chunk{2 * granule};
    const memory small{granule};
    REQUIRE(hipMemMap(addresses.at(), 2 * granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemMap(addresses.at(2 * granule), granule, 0, small.get(), 0) == hipSuccess);
  }
  check_refusals({
      {"the middle", hipMemUnmap(addresses.at(4096), granule)},
      {"over the end of addresses", hipMemUnmap(addresses.at(), SIZE_MAX)},
  });
  CHECK(live_objects().mappings == 2);
  CHECK(hipMemUnmap(addresses.at(), 3 * granule) == hipSuccess);
}

TIDY_CASE("hipMemRelease: memory lives on under its mapping and goes with it") {
  const reservation addresses{granule};
  {
    const memory chunk{granule};
    REQUIRE(hipMemMap(addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  CHECK(live_objects().handles == 0);
  CHECK(hipvmm_host_device_bytes(0) == granule);
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

TIDY_CASE("hipMemRetainAllocationHandle: arguments outside the rules are refused") {
  const mapped mapping{granule};
  const allocation device{4096};
  const reservation unmapped{granule};
  int pageable = 0;
  hipMemGenericAllocationHandle_t handle = nullptr;
  check_refusals({
      {"null handle", hipMemRetainAllocationHandle(nullptr, mapping.at())},
      {"pageable memory", hipMemRetainAllocationHandle(&handle, &pageable)},
  });
}

TIDY_CASE("hipMemRetainAllocationHandle: gives the same handle and one more reference") {
  const reservation addresses{granule};
  const hipMemAllocationProp properties = chunk_on(0);
  hipMemGenericAllocationHandle_t handle = nullptr;
  REQUIRE(hipMemCreate(&handle, granule, &properties, 0) == hipSuccess);
  REQUIRE(hipMemMap(addresses.at(), granule, 0, handle, 0) == hipSuccess);
  hipMemGenericAllocationHandle_t again = nullptr;
  CHECK(hipMemRetainAllocationHandle(&again, addresses.at(granule - 1)) == hipSuccess);
  CHECK(again == handle);
  CHECK(live_objects().handles == 2);
  CHECK(hipMemRelease(handle) == hipSuccess);
  CHECK(hipMemRelease(handle) == hipSuccess);
  CHECK(hipMemRelease(handle) == hipErrorInvalidValue);
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
}

TIDY_CASE("hipMemRetainAllocationHandle: brings a released handle back through its mapping") {
  const mapped mapping{granule, {0}};
  hipMemGenericAllocationHandle_t handle = nullptr;
  CHECK(hipMemRetainAllocationHandle(&handle, mapping.at()) == hipSuccess);
  hipMemAllocationProp properties{};
  CHECK(hipMemGetAllocationPropertiesFromHandle(&properties, handle) == hipSuccess);
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TIDY_CASE("hipMemGetAllocationPropertiesFromHandle: gives what the chunk was made with") {
  const memory chunk{granule, 2, hipMemHandleTypePosixFileDescriptor};
  hipMemAllocationProp properties{};
  CHECK(hipMemGetAllocationPropertiesFromHandle(nullptr, chunk.get()) == hipErrorInvalidValue);
  CHECK(hipMemGetAllocationPropertiesFromHandle(&properties, nullptr) == hipErrorInvalidValue);
  CHECK(hipMemGetAllocationPropertiesFromHandle(&properties, chunk.get()) == hipSuccess);
  CHECK(properties.type == hipMemAllocationTypePinned);
  CHECK(properties.location.type == hipMemLocationTypeDevice);
  CHECK(properties.location.id == 2);
  CHECK(properties.requestedHandleType == hipMemHandleTypePosixFileDescriptor);
}

TIDY_CASE("hipMemMapArrayAsync: a null list is refused") {
  CHECK(hipMemMapArrayAsync(nullptr, 1, nullptr) == hipErrorInvalidValue);
}

TIDY_CASE("hipMemUnmap: neither it nor hipMemAddressFree waits for a stream") {
  const stream busy;
  const allocation unrelated{64};
  const held_streams held;
  REQUIRE(hipMemsetAsync(unrelated.at(), 1, 64, busy.get()) == hipSuccess);
  { const mapped memory{granule}; }
  CHECK(hipStreamQuery(busy.get()) == hipErrorNotReady);
}
