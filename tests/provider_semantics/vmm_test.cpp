// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/hip_compat.hpp"
#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

// Headers before 7.0 lack it, later ones declare the same.
extern "C" hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t start,
                                                     std::size_t bytes,
                                                     hipvmm::hip_compat::range_handle_type type,
                                                     unsigned long long flags);

namespace {

hipError_t reserve(std::size_t bytes, std::size_t alignment = 0, unsigned long long flags = 0) {
  void* start = nullptr;
  const hipError_t code = hipMemAddressReserve(&start, bytes, alignment, nullptr, flags);
  if (code == hipSuccess) REQUIRE(hipMemAddressFree(start, bytes) == hipSuccess);
  return code;
}

hipError_t create(std::size_t bytes, const hipMemAllocationProp& wanted,
                  unsigned long long flags = 0) {
  hipMemGenericAllocationHandle_t handle = nullptr;
  const hipError_t code = hipMemCreate(&handle, bytes, &wanted, flags);
  if (code == hipSuccess) REQUIRE(hipMemRelease(handle) == hipSuccess);
  return code;
}

hipMemAllocationProp of_type(int type) {
  hipMemAllocationProp wanted = pinned_on(0);
  wanted.type = no_such<hipMemAllocationType>(type);
  return wanted;
}

hipMemAllocationProp chunk_at_location(int type) {
  hipMemAllocationProp wanted = pinned_on(0);
  wanted.location.type = no_such<hipMemLocationType>(type);
  return wanted;
}

hipError_t granularity(const hipMemAllocationProp& wanted, int option) {
  std::size_t bytes = 0;
  return hipMemGetAllocationGranularity(&bytes, &wanted,
                                        no_such<hipMemAllocationGranularity_flags>(option));
}

}  // namespace

TEST_CASE("granularity: asks for pinned memory of a device") {
  check_rules({
      {"minimum", [] { return granularity(pinned_on(0), 0); }, hipSuccess},
      {"recommended", [] { return granularity(pinned_on(0), 1); }, hipSuccess},
      {"another option", [] { return granularity(pinned_on(0), 7); }},
      {"another type", [] { return granularity(of_type(0x7F), 0); }},
      {"no location", [] { return granularity(chunk_at_location(0), 0); }},
      {"no such device", [] { return granularity(pinned_on(no_device), 0); }},
  });
}

TEST_CASE("reservation: its arguments") {
  check_rules({
      {"one granule", [] { return reserve(granule()); }, hipSuccess},
      {"no bytes", [] { return reserve(0); }},
      {"part of a granule", [] { return reserve(granule() / 2); }},
      {"an odd number of bytes", [] { return reserve(granule() + 1); }},
      {"an alignment of 3", [] { return reserve(granule(), 3); }},
      {"an alignment of 64 granules", [] { return reserve(granule(), 64 * granule()); },
       hipSuccess},
      {"flags", [] { return reserve(granule(), 0, 1); }},
      {"no result", [] { return hipMemAddressReserve(nullptr, granule(), 0, nullptr, 0); }},
  });
}

TEST_CASE("reservation: starts at a multiple of its alignment") {
  const std::size_t alignment = 64 * granule();
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, granule(), alignment, nullptr, 0) == hipSuccess);
  CHECK(reinterpret_cast<std::uintptr_t>(start) % alignment == 0);
  CHECK(hipMemAddressFree(start, granule()) == hipSuccess);
}

TEST_CASE("reservation: a wish for addresses in use gives others") {
  const addresses taken{2};
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, granule(), 0, taken.at(0), 0) == hipSuccess);
  CHECK(start != taken.at(0));
  CHECK(start != taken.at(1));
  CHECK(hipMemAddressFree(start, granule()) == hipSuccess);
}

TEST_CASE("reservation: a wish for free addresses is taken, by CUDA or not") {
  void* before = nullptr;
  const std::size_t bytes = 4 * granule();
  REQUIRE(hipMemAddressReserve(&before, bytes + granule(), 0, nullptr, 0) == hipSuccess);
  REQUIRE(hipMemAddressFree(before, bytes + granule()) == hipSuccess);
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, bytes, 0, before, 0) == hipSuccess);
  void* const wish = static_cast<std::byte*>(start) + bytes;
  void* behind = nullptr;
  REQUIRE(hipMemAddressReserve(&behind, granule(), 0, wish, 0) == hipSuccess);
  if (on_cuda) {
    MESSAGE("where others were: ", start == before, ", right behind others: ", behind == wish);
    CHECK(behind != start);
  } else {
    CHECK(start == before);
    CHECK(behind == wish);
  }
  CHECK(hipMemAddressFree(behind, granule()) == hipSuccess);
  CHECK(hipMemAddressFree(start, bytes) == hipSuccess);
}

TEST_CASE("reservation: is freed exactly, with nothing mapped in it") {
  const addresses two{2};
  const mapped used{1};
  check_rules({
      {"half of it", [&] { return hipMemAddressFree(two.at(0), granule()); }},
      {"more than it", [&] { return hipMemAddressFree(two.at(0), 3 * granule()); }},
      {"from its middle", [&] { return hipMemAddressFree(two.at(1), granule()); }},
      {"while mapped", [&] { return hipMemAddressFree(used.at(), granule()); }},
      {"null", [] { return hipMemAddressFree(nullptr, granule()); }},
      {"no bytes", [&] { return hipMemAddressFree(two.at(0), 0); }},
  });
}

TEST_CASE("chunk: its arguments") {
  check_rules({
      {"one granule", [] { return create(granule(), pinned_on(0)); }, hipSuccess},
      {"shareable", [] { return create(granule(), pinned_on(0, posix)); }, hipSuccess},
      {"no bytes", [] { return create(0, pinned_on(0)); }},
      {"part of a granule", [] { return create(granule() / 2, pinned_on(0)); }},
      {"an odd number of bytes", [] { return create(granule() + 1, pinned_on(0)); }},
      {"flags", [] { return create(granule(), pinned_on(0), 1); }},
      {"another type", [] { return create(granule(), of_type(0x7F)); }},
      {"no location", [] { return create(granule(), chunk_at_location(0)); }},
      {"no such device", [] { return create(granule(), pinned_on(no_device)); },
       hipErrorInvalidDevice},
      {"device -1", [] { return create(granule(), pinned_on(-1)); }, hipErrorInvalidDevice},
      {"a Windows handle", [] { return create(granule(), pinned_on(0, hipMemHandleTypeWin32)); },
       hipErrorNotSupported},
      {"more than any device has", [] { return create(granule() << 30U, pinned_on(0)); },
       hipErrorOutOfMemory},
      {"no properties",
       [] {
         hipMemGenericAllocationHandle_t handle = nullptr;
         return hipMemCreate(&handle, granule(), nullptr, 0);
       }},
  });
}

TEST_CASE("mapping: takes a chunk from its beginning, in free addresses of one reservation") {
  const addresses place{4};
  const chunk one;
  const chunk two{2};
  const mapped used{1, 1};
  const auto map = [&](const std::byte* at, std::size_t bytes, std::size_t offset,
                       const chunk& from, unsigned long long flags = 0) {
    void* const start = const_cast<std::byte*>(at);
    const hipError_t code = hipMemMap(start, bytes, offset, from.get(), flags);
    if (code == hipSuccess) REQUIRE(hipMemUnmap(start, bytes) == hipSuccess);
    return code;
  };
  const std::size_t unit = granule();
  check_rules({
      {"a whole chunk", [&] { return map(place.at(0), 2 * unit, 0, two); }, hipSuccess},
      {"in the middle", [&] { return map(place.at(1), unit, 0, one); }, hipSuccess},
      {"at an offset", [&] { return map(place.at(0), unit, unit, two); }},
      {"its beginning only",
       [&] { return map(place.at(0), unit, 0, two); },
       {hipSuccess, hipErrorNotSupported}},
      {"more than the chunk",
       [&] { return map(place.at(0), 2 * unit, 0, one); },
       {hipErrorInvalidValue, hipErrorNotSupported}},
      {"off a granule", [&] { return map(place.at(0, 4096), unit, 0, one); }},
      {"part of a granule",
       [&] { return map(place.at(0), unit / 2, 0, one); },
       {hipErrorInvalidValue, hipErrorNotSupported}},
      {"over a mapping", [&] { return map(used.at(), unit, 0, one); }},
      {"past the reservation", [&] { return map(place.at(3), 2 * unit, 0, two); }},
      {"flags", [&] { return map(place.at(0), unit, 0, one, 1); }},
      {"no chunk", [&] { return hipMemMap(place.at(0), unit, 0, nullptr, 0); }},
      {"at null", [&] { return hipMemMap(nullptr, unit, 0, one.get(), 0); }},
  });
}

TEST_CASE("unmapping: takes whole mappings") {
  const addresses place{4};
  const chunk one;
  const chunk two{2};
  REQUIRE(hipMemMap(place.at(0), 2 * granule(), 0, two.get(), 0) == hipSuccess);
  REQUIRE(hipMemMap(place.at(2), granule(), 0, one.get(), 0) == hipSuccess);
  check_rules({
      {"half of one", [&] { return hipMemUnmap(place.at(0), granule()); }},
      {"its other half", [&] { return hipMemUnmap(place.at(1), granule()); }},
      {"one and a half", [&] { return hipMemUnmap(place.at(1), 2 * granule()); }},
      {"null", [] { return hipMemUnmap(nullptr, granule()); }},
      {"no bytes", [&] { return hipMemUnmap(place.at(0), 0); }},
      {"two neighbours", [&] { return hipMemUnmap(place.at(0), 3 * granule()); }, hipSuccess},
      {"where nothing is any more",
       [&] { return hipMemUnmap(place.at(0), 3 * granule()); },
       {hipErrorInvalidValue, hipSuccess}},
      {"where nothing ever was",
       [&] { return hipMemUnmap(place.at(3), granule()); },
       {hipErrorInvalidValue, hipSuccess}},
  });
}

TEST_CASE("unmapping: of a range with a hole") {
  const addresses place{3};
  const chunk one;
  REQUIRE(hipMemMap(place.at(1), granule(), 0, one.get(), 0) == hipSuccess);
  check_rules({
      {"a hole behind",
       [&] { return hipMemUnmap(place.at(1), 2 * granule()); },
       {hipErrorInvalidValue, hipSuccess}},
      {"what is mapped", [&] { return hipMemUnmap(place.at(1), granule()); }, hipSuccess},
      {"mapping there again", [&] { return hipMemMap(place.at(1), granule(), 0, one.get(), 0); },
       hipSuccess},
      {"a hole ahead",
       [&] { return hipMemUnmap(place.at(0), 2 * granule()); },
       {hipErrorInvalidValue, hipSuccess}},
      {"what is mapped", [&] { return hipMemUnmap(place.at(1), granule()); }, hipSuccess},
  });
}

TEST_CASE("chunk: what is mapped outlives its handle") {
  const addresses place{1};
  {
    const chunk gone;
    REQUIRE(hipMemMap(place.at(0), granule(), 0, gone.get(), 0) == hipSuccess);
  }
  const hipMemAccessDesc wanted = open_to(0);
  REQUIRE(hipMemSetAccess(place.at(0), granule(), &wanted, 1) == hipSuccess);
  REQUIRE(fill_and_wait(place.at(0), 0x5A, granule()) == hipSuccess);
  CHECK(byte_at(place.at(0, granule() - 1)) == 0x5A);
  CHECK(hipMemUnmap(place.at(0), granule()) == hipSuccess);
}

TEST_CASE("chunk: two addresses show the same bytes") {
  mapped first{1};
  first.open();
  const addresses second{1};
  REQUIRE(hipMemMap(second.at(0), granule(), 0, first.handle(), 0) == hipSuccess);
  const hipMemAccessDesc wanted = open_to(0);
  REQUIRE(hipMemSetAccess(second.at(0), granule(), &wanted, 1) == hipSuccess);
  REQUIRE(fill_and_wait(first.at(), 0x3C, granule()) == hipSuccess);
  CHECK(byte_at(second.at(0, 17)) == 0x3C);
  CHECK(hipMemUnmap(second.at(0), granule()) == hipSuccess);
}

TEST_CASE("chunk: its handle is found at every mapped byte, with a reference") {
  const mapped one{1, 1};
  const allocation plain{4096};
  const auto retain = [](void* at) {
    hipMemGenericAllocationHandle_t handle = nullptr;
    const hipError_t code = hipMemRetainAllocationHandle(&handle, at);
    if (code == hipSuccess) REQUIRE(hipMemRelease(handle) == hipSuccess);
    return code;
  };
  check_rules({
      {"its first byte", [&] { return retain(one.at()); }, hipSuccess},
      {"a byte inside", [&] { return retain(one.at(0, 12345)); }, hipSuccess},
      {"where nothing is mapped", [&] { return retain(one.at(1)); }},
      {"memory of hipMalloc", [&] { return retain(plain.get()); }},
      {"null", [&] { return retain(nullptr); }},
  });
  hipMemGenericAllocationHandle_t handle = nullptr;
  REQUIRE(hipMemRetainAllocationHandle(&handle, one.at()) == hipSuccess);
  CHECK(handle == one.handle());
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TEST_CASE("chunk: tells what it was made with") {
  const chunk shared{1, 0, posix};
  hipMemAllocationProp found{};
  REQUIRE(hipMemGetAllocationPropertiesFromHandle(&found, shared.get()) == hipSuccess);
  CHECK(found.type == hipMemAllocationTypePinned);
  CHECK(found.location.type == hipMemLocationTypeDevice);
  CHECK(found.location.id == 0);
  CHECK(found.requestedHandleType == posix);
}

TEST_CASE("chunk: null handles are refused") {
  hipMemAllocationProp found{};
  check_rules({
      {"release", [] { return hipMemRelease(nullptr); }},
      {"properties", [&] { return hipMemGetAllocationPropertiesFromHandle(&found, nullptr); }},
  });
}

// AMD's runtime has it in 7.0 and later, and below it a stand-in for ROCr that exports no part.
#if HIPVMM_TEST_ON_AMD == 0
TEST_CASE("dma-buf: of whole pages that are mapped") {
  mapped two{2, 1, 0, posix};
  two.open();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto kind = [](int number) {
    return no_such<hipvmm::hip_compat::range_handle_type>(number);
  };
  int made = -1;
  const auto get = [&](std::byte* start, std::size_t bytes, int type = 1) {
    return hipMemGetHandleForAddressRange(&made, start, bytes, kind(type), 0);
  };
  check_rules({
      {"no result",
       [&] { return hipMemGetHandleForAddressRange(nullptr, two.at(), page, kind(1), 0); }},
      {"another kind", [&] { return get(two.at(), page, 7); }},
      {"no address", [&] { return get(nullptr, page); }},
      {"no bytes", [&] { return get(two.at(), 0); }},
      {"part of a page", [&] { return get(two.at(), page / 2); }},
      {"from the middle of a page", [&] { return get(two.at(0, page / 2), page); }},
      {"a page that is not mapped", [&] { return get(two.at(2), page); }},
      {"the end of what is mapped", [&] { return get(two.at(1), granule() + page); }},
  });
  CHECK(made == -1);
  // A machine has dma-bufs or not: the host provider none, a GPU if its driver can make them.
  const hipError_t code = get(two.at(0, granule() - page), 2 * page);
  static_cast<void>(hipGetLastError());
  MESSAGE("two pages of two chunks: ", std::string{hipGetErrorName(code)});
  if (!on_cuda) CHECK(code == hipErrorNotSupported);
  if (code != hipSuccess) {
    CHECK(code == hipErrorNotSupported);
    return;
  }
  CHECK((::fcntl(made, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::lseek(made, 0, SEEK_END) == static_cast<off_t>(2 * page));
  CHECK(::close(made) == 0);
}
#endif

TEST_CASE("arrays: are not mapped") {
  hipArrayMapInfo map{};
  check_rules({
      {"one", [&] { return hipMemMapArrayAsync(&map, 1, nullptr); }, hipErrorNotSupported},
      {"none", [&] { return hipMemMapArrayAsync(&map, 0, nullptr); }},
  });
}
