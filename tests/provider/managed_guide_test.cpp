// SPDX-License-Identifier: MIT
// Each function of "HIP Runtime API Reference: Managed Memory", and what that page says of it.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <array>

#include "managed_fixture.hpp"

using namespace hipvmm::test;

TEST_CASE("managed reference: the capability that is to be checked first is there") {
  int supported = 0;
  CHECK(hipDeviceGetAttribute(&supported, hipDeviceAttributeManagedMemory, 0) == hipSuccess);
  CHECK(supported == 1);
}

TEST_CASE("managed reference: hipMallocManaged gives host and device one pointer") {
  const nothing_left check;
  const stream work;
  for (const unsigned flags : {hipMemAttachGlobal, hipMemAttachHost}) {
    const managed both{page, flags};
    *both.at(1) = std::byte{1};
    CHECK(hipMemsetAsync(both.at(), 2, 1, work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(*both.at(0) == std::byte{2});
    CHECK(*both.at(1) == std::byte{1});
  }
}

TEST_CASE("managed reference: hipMallocManaged attaches globally unless told otherwise") {
  const nothing_left check;
  void* pointer = nullptr;
  REQUIRE(hipMallocManaged(&pointer, page) == hipSuccess);
  hipPointerAttribute_t attributes{};
  CHECK(hipPointerGetAttributes(&attributes, pointer) == hipSuccess);
  CHECK(attributes.allocationFlags == hipMemAttachGlobal);
  CHECK(hipMallocManaged(&pointer, page, hipMemAttachSingle) == hipErrorInvalidValue);
  CHECK(hipFree(pointer) == hipSuccess);
}

TEST_CASE("managed reference: hipMemAdvise rounds its range outwards to pages") {
  const nothing_left check;
  const managed both{3 * page};
  CHECK(hipMemAdvise(both.at(page + 1), 1, hipMemAdviseSetReadMostly, 0) == hipSuccess);
  CHECK(attribute(hipMemRangeAttributeReadMostly, both.at(page), page) == 1);
  CHECK(attribute(hipMemRangeAttributeReadMostly, both.at(), page) == 0);
  CHECK(attribute(hipMemRangeAttributeReadMostly, both.at(2 * page), page) == 0);
}

TEST_CASE("managed reference: hipMemAdvise is for memory of hipMallocManaged") {
  const nothing_left check;
  const allocation device{page};
  CHECK(hipMemAdvise(device.at(), page, hipMemAdviseSetReadMostly, 0) == hipErrorInvalidValue);
}

TEST_CASE("managed reference: hipMemPrefetchAsync moves memory there and back in stream order") {
  const nothing_left check;
  const managed both{page};
  const stream work;
  std::fill_n(both.at(), page, std::byte{7});
  {
    const held_streams held;
    CHECK(hipMemPrefetchAsync(both.at(), page, 1, work.get()) == hipSuccess);
    CHECK(residence(both.at()) == std::vector<int>{hipCpuDeviceId});
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(residence(both.at()) == std::vector<int>{1});
  CHECK(hipMemPrefetchAsync(both.at(), page, hipCpuDeviceId, work.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(residence(both.at()) == std::vector<int>{hipCpuDeviceId});
  CHECK(equal(both.at(), bytes_of(page, 7)));
}

TEST_CASE("managed reference: hipMemRangeGetAttribute writes what was asked for") {
  const nothing_left check;
  const managed both{page};
  advise(both.at(), page, hipMemAdviseSetPreferredLocation, 1);
  int value = 99;
  CHECK(hipMemRangeGetAttribute(&value, sizeof(value), hipMemRangeAttributePreferredLocation,
                                both.at(), page) == hipSuccess);
  CHECK(value == 1);
}

TEST_CASE("managed reference: hipMemRangeGetAttributes writes each answer to its place") {
  const nothing_left check;
  const managed both{page};
  advise(both.at(), page, hipMemAdviseSetReadMostly);
  REQUIRE(hipMemPrefetchAsync(both.at(), page, 1, nullptr) == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  std::array<int, 2> values{99, 99};
  std::array<void*, 2> data{&values[0], &values[1]};
  std::array<std::size_t, 2> sizes{sizeof(int), sizeof(int)};
  std::array attributes{hipMemRangeAttributeReadMostly, hipMemRangeAttributeLastPrefetchLocation};
  CHECK(hipMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), 2, both.at(),
                                 page) == hipSuccess);
  CHECK(values == std::array{1, 1});
}

TEST_CASE("managed reference: hipStreamAttachMemAsync takes the whole allocation by default") {
  const nothing_left check;
  const managed both{2 * page};
  const stream work;
  CHECK(hipStreamAttachMemAsync(work.get(), both.at()) == hipSuccess);
  for (const unsigned flags : {hipMemAttachGlobal, hipMemAttachHost, hipMemAttachSingle}) {
    CHECK(hipStreamAttachMemAsync(work.get(), both.at(), 2 * page, flags) == hipSuccess);
  }
  CHECK(hipStreamAttachMemAsync(work.get(), both.at(), page) == hipErrorInvalidValue);
  CHECK(work.wait() == hipSuccess);
}

// The page also allows memory of the system's own, which needs devices that use pageable memory.
TEST_CASE("managed reference: hipStreamAttachMemAsync refuses pageable memory, as devices do") {
  const nothing_left check;
  const stream work;
  int pageable = 0;
  int used_by_devices = 99;
  CHECK(hipDeviceGetAttribute(&used_by_devices, hipDeviceAttributePageableMemoryAccess, 0) ==
        hipSuccess);
  CHECK(used_by_devices == 0);
  CHECK(hipStreamAttachMemAsync(work.get(), &pageable) == hipErrorInvalidValue);
}
