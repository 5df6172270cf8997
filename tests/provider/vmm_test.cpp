// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>

#include "fixtures.hpp"

using namespace hipvmm::test;

namespace {

hipMemAllocationProp with_type(int type) {
  hipMemAllocationProp properties = chunk_on(0);
  properties.type = not_an_enumerator<hipMemAllocationType>(type);
  return properties;
}

hipMemAllocationProp chunk_at_location(int type, int id) {
  hipMemAllocationProp properties = chunk_on(0);
  properties.location = {not_an_enumerator<hipMemLocationType>(type), id};
  return properties;
}

}  // namespace

TEST_CASE("hipMemGetAllocationGranularity: arguments outside the rules are refused") {
  size_t bytes = 0;
  const hipMemAllocationProp good = chunk_on(0);
  const hipMemAllocationProp bad_type = with_type(2);
  const hipMemAllocationProp bad_place = chunk_at_location(0, 0);
  const hipMemAllocationProp bad_device = chunk_at_location(hipMemLocationTypeDevice, 3);
  const hipMemAllocationProp negative = chunk_at_location(hipMemLocationTypeDevice, -1);
  constexpr auto minimum = hipMemAllocationGranularityMinimum;
  const auto bad_option = not_an_enumerator<hipMemAllocationGranularity_flags>(2);
  check_refusals({
      {"null result", hipMemGetAllocationGranularity(nullptr, &good, minimum)},
      {"null properties", hipMemGetAllocationGranularity(&bytes, nullptr, minimum)},
      {"unknown type", hipMemGetAllocationGranularity(&bytes, &bad_type, minimum)},
      {"no location", hipMemGetAllocationGranularity(&bytes, &bad_place, minimum)},
      {"no such device", hipMemGetAllocationGranularity(&bytes, &bad_device, minimum)},
      {"negative device", hipMemGetAllocationGranularity(&bytes, &negative, minimum)},
      {"unknown option", hipMemGetAllocationGranularity(&bytes, &good, bad_option)},
  });
  static_cast<void>(hipGetLastError());
}

TEST_CASE("hipMemAddressReserve: arguments outside the rules are refused") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  void* start = nullptr;
  const std::size_t everything = SIZE_MAX / granule * granule;
  const hipError_t bad_size =
      under(quirks::reserve_out_of_memory, hipErrorOutOfMemory, hipErrorInvalidValue);
  check_refusals({
      {"null result", hipMemAddressReserve(nullptr, granule, 0, nullptr, 0)},
      {"no bytes", hipMemAddressReserve(&start, 0, 0, nullptr, 0), bad_size},
      {"not whole granules", hipMemAddressReserve(&start, granule + 4096, 0, nullptr, 0), bad_size},
      {"alignment not a power of two", hipMemAddressReserve(&start, granule, 3, nullptr, 0),
       bad_size},
      {"flags", hipMemAddressReserve(&start, granule, 0, nullptr, 1)},
      {"more than there is", hipMemAddressReserve(&start, everything, 0, nullptr, 0),
       hipErrorOutOfMemory},
      {"alignment beyond what there is",
       unless(
           quirks::alignment_ignored,
           [&] { return hipMemAddressReserve(&start, granule, std::size_t{1} << 63U, nullptr, 0); },
           hipErrorOutOfMemory),
       hipErrorOutOfMemory},
  });
}

TEST_CASE("hipMemAddressReserve: the start is a multiple of the alignment and the granularity") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(alignment_ignored);
  const nothing_left check;
  for (std::size_t alignment : {std::size_t{0}, std::size_t{2}, granule, 64 * granule}) {
    CAPTURE(alignment);
    void* start = nullptr;
    REQUIRE(hipMemAddressReserve(&start, 3 * granule, alignment, nullptr, 0) == hipSuccess);
    CHECK(reinterpret_cast<std::uintptr_t>(start) % granule == 0);
    if (alignment != 0) CHECK(reinterpret_cast<std::uintptr_t>(start) % alignment == 0);
    CHECK(hipMemAddressFree(start, 3 * granule) == hipSuccess);
  }
}

TEST_CASE("hipMemAddressReserve: free addresses that are asked for are given") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, 4 * granule, 0, nullptr, 0) == hipSuccess);
  REQUIRE(hipMemAddressFree(start, 4 * granule) == hipSuccess);
  void* again = nullptr;
  REQUIRE(hipMemAddressReserve(&again, 2 * granule, 0, start, 0) == hipSuccess);
  CHECK(again == start);
  CHECK(hipMemAddressFree(again, 2 * granule) == hipSuccess);
}

TEST_CASE("hipMemAddressReserve: taken addresses that are asked for become others") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const reservation taken{2 * granule};
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, granule, 0, taken.at(), 0) == hipSuccess);
  CHECK(start != taken.at());
  CHECK(hipMemAddressFree(start, granule) == hipSuccess);
}

TEST_CASE("hipMemAddressFree: only a whole reservation with nothing mapped can be freed") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(free_ignores_size);
  const nothing_left check;
  const reservation addresses{2 * granule};
  {
    const memory chunk{granule};
    REQUIRE(hipMemMap(addresses.at(granule), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  int elsewhere = 0;
  check_refusals({
      {"null", hipMemAddressFree(nullptr, granule)},
      {"no bytes", hipMemAddressFree(addresses.at(), 0)},
      {"too few bytes", hipMemAddressFree(addresses.at(), granule)},
      {"too many bytes", hipMemAddressFree(addresses.at(), 3 * granule)},
      {"not its start", hipMemAddressFree(addresses.at(granule), granule)},
      {"no reservation", hipMemAddressFree(&elsewhere, granule)},
      {"something mapped", hipMemAddressFree(addresses.at(), 2 * granule)},
  });
  CHECK(hipMemUnmap(addresses.at(granule), granule) == hipSuccess);
}

TEST_CASE("hipMemCreate: arguments outside the rules are refused") {
  const nothing_left check;
  hipMemGenericAllocationHandle_t handle = nullptr;
  const hipMemAllocationProp good = chunk_on(0);
  const hipMemAllocationProp bad_type = with_type(2);
  const hipMemAllocationProp bad_place = chunk_at_location(0, 0);
  const hipMemAllocationProp bad_device = chunk_at_location(hipMemLocationTypeDevice, 3);
  const hipMemAllocationProp negative = chunk_at_location(hipMemLocationTypeDevice, -1);
  const hipMemAllocationProp shareable = chunk_on(0, hipMemHandleTypePosixFileDescriptor);
  const hipMemAllocationProp win32 = chunk_on(0, hipMemHandleTypeWin32);
  const hipError_t no_device =
      under(quirks::bad_device_is_value, hipErrorInvalidValue, hipErrorInvalidDevice);
  check_refusals({
      {"null handle", hipMemCreate(nullptr, granule, &good, 0)},
      {"null properties", hipMemCreate(&handle, granule, nullptr, 0)},
      {"flags", hipMemCreate(&handle, granule, &good, 1)},
      {"no bytes", hipMemCreate(&handle, 0, &good, 0)},
      {"not whole granules", hipMemCreate(&handle, granule - 4096, &good, 0)},
      {"unknown type", hipMemCreate(&handle, granule, &bad_type, 0)},
      {"no location", hipMemCreate(&handle, granule, &bad_place, 0)},
      {"no such device", hipMemCreate(&handle, granule, &bad_device, 0), no_device},
      {"negative device", hipMemCreate(&handle, granule, &negative, 0), no_device},
      {"handle type of another system", hipMemCreate(&handle, granule, &win32, 0),
       hipErrorNotSupported},
      {"beyond the budget", hipMemCreate(&handle, device_budget + granule, &good, 0),
       hipErrorOutOfMemory},
      {"beyond the budget, shareable",
       hipMemCreate(&handle, device_budget + granule, &shareable, 0),
       under(quirks::no_sharing, hipErrorNotSupported, hipErrorOutOfMemory)},
  });
}

TEST_CASE("hipMemMap: arguments outside the rules are refused") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const reservation addresses{5 * granule};
  const memory chunk{2 * granule};
  const memory small{granule};
  const hipError_t told = under(quirks::map_reports_success, hipSuccess, hipErrorInvalidValue);
  REQUIRE(hipMemMap(addresses.at(), granule, 0, small.get(), 0) == hipSuccess);
  REQUIRE(hipMemMap(addresses.at(2 * granule), 2 * granule, 0, chunk.get(), 0) == hipSuccess);
  const hipError_t another_size = under(quirks::whole_chunks_only, hipErrorNotSupported, told);
  int pageable = 0;
  check_refusals({
      {"null address", hipMemMap(nullptr, granule, 0, chunk.get(), 0)},
      {"null handle", hipMemMap(addresses.at(granule), granule, 0, nullptr, 0)},
      {"no bytes", hipMemMap(addresses.at(granule), 0, 0, chunk.get(), 0)},
      {"not whole granules", hipMemMap(addresses.at(granule), 4096, 0, chunk.get(), 0),
       another_size},
      {"not on a granule", hipMemMap(addresses.at(granule + 4096), granule, 0, chunk.get(), 0),
       another_size},
      {"an offset", hipMemMap(addresses.at(granule), granule, granule, chunk.get(), 0)},
      {"flags", hipMemMap(addresses.at(granule), granule, 0, chunk.get(), 1)},
      {"more than the chunk", hipMemMap(addresses.at(granule), 3 * granule, 0, chunk.get(), 0),
       another_size},
      {"already mapped", hipMemMap(addresses.at(), granule, 0, small.get(), 0), told},
      {"inside a mapping", hipMemMap(addresses.at(3 * granule), granule, 0, small.get(), 0), told},
      {"over the end of the reservation",
       hipMemMap(addresses.at(4 * granule), 2 * granule, 0, chunk.get(), 0), told},
      {"not reserved", hipMemMap(&pageable, granule, 0, small.get(), 0), told},
  });
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
  CHECK(hipMemUnmap(addresses.at(2 * granule), 2 * granule) == hipSuccess);
}

TEST_CASE("hipMemMap: a range that begins free and ends in a mapping is refused") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(map_reports_success);
  const nothing_left check;
  const reservation addresses{2 * granule};
  const memory chunk{2 * granule};
  const memory small{granule};
  REQUIRE(hipMemMap(addresses.at(granule), granule, 0, small.get(), 0) == hipSuccess);
  CHECK(hipMemMap(addresses.at(), 2 * granule, 0, chunk.get(), 0) == hipErrorInvalidValue);
  CHECK(hipMemUnmap(addresses.at(granule), granule) == hipSuccess);
}

TEST_CASE("hipMemMap: a mapping over two neighbouring reservations is refused") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(map_reports_success);
  const nothing_left check;
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

TEST_CASE("hipMemMap: the beginning of a chunk can be mapped alone") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(whole_chunks_only);
  const nothing_left check;
  const reservation addresses{granule};
  const memory chunk{4 * granule};
  CHECK(hipMemMap(addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
}

TEST_CASE("hipMemUnmap: where holes pass, what is mapped goes, in one reservation") {
  if (!quirks::unmap_passes_holes.holds()) return;
  const nothing_left check;
  const reservation addresses{5 * granule};
  const memory chunk{granule};
  for (const std::size_t at : {1, 3, 4}) {
    REQUIRE(hipMemMap(addresses.at(at * granule), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  CHECK(hipMemUnmap(addresses.at(), 6 * granule) == hipErrorInvalidValue);
  CHECK(live_objects().mappings == 3);
  CHECK(hipMemUnmap(addresses.at(), 4 * granule) == hipSuccess);
  CHECK(live_objects().mappings == 1);
  CHECK(hipMemUnmap(addresses.at(2 * granule), 3 * granule) == hipSuccess);
  CHECK(live_objects().mappings == 0);
}

TEST_CASE("hipMemUnmap: only whole mappings can be unmapped, and nothing changes otherwise") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(one_unmap_each);
  const nothing_left check;
  const reservation addresses{4 * granule};
  {
    const memory chunk{2 * granule};
    const memory small{granule};
    REQUIRE(hipMemMap(addresses.at(), 2 * granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemMap(addresses.at(2 * granule), granule, 0, small.get(), 0) == hipSuccess);
  }
  check_refusals({
      {"null", hipMemUnmap(nullptr, granule)},
      {"no bytes", hipMemUnmap(addresses.at(), 0)},
      {"part of a mapping", hipMemUnmap(addresses.at(), granule)},
      {"one and a half", hipMemUnmap(addresses.at(granule), 2 * granule)},
      {"the middle", hipMemUnmap(addresses.at(4096), granule)},
      {"more than is mapped", unless(quirks::unmap_passes_holes,
                                     [&] { return hipMemUnmap(addresses.at(), 4 * granule); })},
      {"not mapped", unless(quirks::unmap_passes_holes,
                            [&] { return hipMemUnmap(addresses.at(3 * granule), granule); })},
      {"over the end of addresses", hipMemUnmap(addresses.at(), SIZE_MAX)},
  });
  CHECK(live_objects().mappings == 2);
  CHECK(hipMemUnmap(addresses.at(), 3 * granule) == hipSuccess);
}

TEST_CASE("hipMemUnmap: neighbouring mappings can be unmapped in one call") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(one_unmap_each);
  const nothing_left check;
  const reservation addresses{3 * granule};
  const memory chunk{granule};
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(hipMemMap(addresses.at(i * granule), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  CHECK(hipMemUnmap(addresses.at(), 3 * granule) == hipSuccess);
  CHECK(live_objects().mappings == 0);
}

TEST_CASE("hipMemRelease: memory lives on under its mapping and goes with it") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(memory_kept);
  const nothing_left check;
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

TEST_CASE("hipMemRetainAllocationHandle: arguments outside the rules are refused") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const mapped mapping{granule};
  const allocation device{4096};
  const reservation unmapped{granule};
  int pageable = 0;
  hipMemGenericAllocationHandle_t handle = nullptr;
  check_refusals({
      {"null handle", hipMemRetainAllocationHandle(nullptr, mapping.at())},
      {"null address", hipMemRetainAllocationHandle(&handle, nullptr)},
      {"not mapped", hipMemRetainAllocationHandle(&handle, unmapped.at())},
      {"hipMalloc memory",
       unless(quirks::unknown_addresses_crash,
              [&] { return hipMemRetainAllocationHandle(&handle, device.at()); })},
      {"pageable memory", hipMemRetainAllocationHandle(&handle, &pageable)},
  });
}

TEST_CASE("hipMemRetainAllocationHandle: gives the same handle and one more reference") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(retain_adds_nothing);
  const nothing_left check;
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
  if (!quirks::stale_handles_crash.holds()) {
    CHECK(hipMemRelease(handle) == hipErrorInvalidValue);
  }
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
}

TEST_CASE("hipMemRetainAllocationHandle: brings a released handle back through its mapping") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(retain_adds_nothing);
  const nothing_left check;
  const mapped mapping{granule, {0}};
  hipMemGenericAllocationHandle_t handle = nullptr;
  CHECK(hipMemRetainAllocationHandle(&handle, mapping.at()) == hipSuccess);
  hipMemAllocationProp properties{};
  CHECK(hipMemGetAllocationPropertiesFromHandle(&properties, handle) == hipSuccess);
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TEST_CASE("hipMemGetAllocationPropertiesFromHandle: gives what the chunk was made with") {
  HIPVMM_SKIP_UNDER(no_sharing);
  const nothing_left check;
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

TEST_CASE("hipMemMapArrayAsync: is not supported, as on AMD") {
  const nothing_left check;
  hipArrayMapInfo map{};
  CHECK(hipMemMapArrayAsync(nullptr, 1, nullptr) == hipErrorInvalidValue);
  CHECK(hipMemMapArrayAsync(&map, 0, nullptr) == hipErrorInvalidValue);
  CHECK(hipMemMapArrayAsync(&map, 1, nullptr) == hipErrorNotSupported);
}
