// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "core/hip_compat.hpp"
#include "managed_fixture.hpp"
#include "providers/memory_advice.hpp"

using namespace hipvmm::test;

TIDY_CASE("hipMallocManaged: arguments outside the rules are refused") {
  void* pointer = nullptr;
  check_refusals({
      {"null", hipMallocManaged(nullptr, page, hipMemAttachGlobal)},
      {"single", hipMallocManaged(&pointer, page, hipMemAttachSingle)},
      {"beyond everything", hipMallocManaged(&pointer, SIZE_MAX, hipMemAttachGlobal),
       hipErrorOutOfMemory},
  });
}

TIDY_CASE("hipMallocManaged: memory is counted until it is freed and charged to no device") {
  const managed some{3 * page};
  CHECK(live_objects().managed_allocations == 1);
  CHECK(live_objects().allocations == 0);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

TIDY_CASE("hipMallocManaged: memory is freed by hipFree alone, from its start, once") {
  void* pointer = nullptr;
  REQUIRE(hipMallocManaged(&pointer, 2 * page, hipMemAttachHost) == hipSuccess);
  CHECK(hipFree(static_cast<std::byte*>(pointer) + page) == hipErrorInvalidValue);
  CHECK(hipHostFree(pointer) == hipErrorInvalidValue);
  CHECK(hipHostUnregister(pointer) == hipErrorHostMemoryNotRegistered);
  CHECK(hipFree(pointer) == hipSuccess);
  CHECK(hipFree(pointer) == hipErrorInvalidValue);
}

TIDY_CASE("hipFree: managed memory waits for the work of every device") {
  const stream work{hipStreamNonBlocking, 2};
  void* pointer = nullptr;
  REQUIRE(hipMallocManaged(&pointer, page, hipMemAttachGlobal) == hipSuccess);
  bool ran = false;
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  REQUIRE(hipLaunchHostFunc(work.get(), set, &ran) == hipSuccess);
  CHECK(hipFree(pointer) == hipSuccess);
  CHECK(ran);
}

TIDY_CASE("hipMallocManaged: the host and every device read and write the same bytes") {
  const managed some{2 * page};
  std::memset(some.at(), 1, 2 * page);
  for (int device = 0; device < 3; ++device) {
    REQUIRE(hipSetDevice(device) == hipSuccess);
    REQUIRE(hipMemset(some.at(page), device + 5, page) == hipSuccess);
    std::vector<std::byte> seen(2 * page);
    REQUIRE(hipMemcpy(seen.data(), some.at(), 2 * page, hipMemcpyDeviceToHost) == hipSuccess);
    CHECK(equal(seen.data(), bytes_of(page, 1)));
    CHECK(equal(seen.data() + page, bytes_of(page, device + 5)));
    CHECK(equal(some.at(page), bytes_of(page, device + 5)));
  }
}

TIDY_CASE("hipMemcpy: managed memory is at home on both sides of a copy") {
  const managed from{page};
  const managed to{page};
  const allocation device{page, 1};
  for (const hipMemcpyKind kind :
       {hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice,
        hipMemcpyDefault}) {
    CAPTURE(kind);
    std::memset(from.at(), 10 + static_cast<int>(kind), page);
    CHECK(hipMemcpy(to.at(), from.at(), page, kind) == hipSuccess);
    CHECK(equal(to.at(), bytes_of(page, 10 + static_cast<int>(kind))));
  }
  CHECK(hipMemcpyPeer(device.at(), 1, from.at(), 0, page) == hipSuccess);
}

TIDY_CASE("hipMallocManaged: a copy beyond the end is refused") {
  const managed some{page};
  const allocation device{2 * page};
  CHECK(hipMemcpy(some.at(), device.at(), page + 1, hipMemcpyDefault) == hipErrorInvalidValue);
}

TIDY_CASE("hipPointerGetAttributes: managed memory says so") {
  REQUIRE(hipSetDevice(1) == hipSuccess);
  const managed some{page, hipMemAttachHost};
  const allocation device{page};
  hipPointerAttribute_t attributes{};
  REQUIRE(hipPointerGetAttributes(&attributes, some.at(7)) == hipSuccess);
  CHECK(attributes.isManaged == 1);
  CHECK(hipvmm::hip_compat::memory_type(attributes) == hipvmm::hip_compat::managed_memory_type);
  CHECK(attributes.device == 1);
  CHECK(attributes.hostPointer == some.at(7));
  CHECK(attributes.devicePointer == some.at(7));
  CHECK(attributes.allocationFlags == hipMemAttachHost);
  REQUIRE(hipPointerGetAttributes(&attributes, device.at()) == hipSuccess);
  CHECK(attributes.isManaged == 0);
}

TEST_CASE("hipDeviceGetAttribute: managed memory is supported, pageable memory is not") {
  for (const auto& [attribute, expected] :
       {std::pair{hipDeviceAttributeManagedMemory, 1},
        {hipDeviceAttributeConcurrentManagedAccess, 1},
        {hipDeviceAttributeDirectManagedMemAccessFromHost, 1},
        {hipDeviceAttributePageableMemoryAccess, 0},
        {hipDeviceAttributePageableMemoryAccessUsesHostPageTables, 0}}) {
    int value = -1;
    CHECK(hipDeviceGetAttribute(&value, attribute, 0) == hipSuccess);
    CHECK(value == expected);
  }
}

TIDY_CASE("hipMemPrefetchAsync: arguments outside the rules are refused") {
  const managed some{page};
  const allocation device{page};
  const pinned host{page};
  std::array<std::byte, 64> pageable{};
  const auto forged = as_handle<hipStream_t>(0x1234560);
  check_refusals({
      {"no bytes", hipMemPrefetchAsync(some.at(), 0, 0, nullptr)},
      {"beyond the end", hipMemPrefetchAsync(some.at(), page + 1, 0, nullptr)},
      {"beyond the end from the middle", hipMemPrefetchAsync(some.at(1), page, 0, nullptr)},
      {"wrapping", hipMemPrefetchAsync(some.at(1), SIZE_MAX, 0, nullptr)},
      {"hipHostMalloc memory", hipMemPrefetchAsync(host.at(), page, 0, nullptr)},
      {"pageable memory", hipMemPrefetchAsync(pageable.data(), 64, 0, nullptr),
       hipErrorNotSupported},
      {"hipInvalidDeviceId", hipMemPrefetchAsync(some.at(), page, hipInvalidDeviceId, nullptr),
       hipErrorInvalidDevice},
      {"forged stream", hipMemPrefetchAsync(some.at(), page, 0, forged), hipErrorInvalidHandle},
  });
}

TIDY_CASE("hipMemAdvise: arguments outside the rules are refused") {
  const managed some{page};
  const allocation device{page};
  const pinned host{page};
  int pageable = 0;
  constexpr auto preferred = hipMemAdviseSetPreferredLocation;
  check_refusals({
      {"hipHostMalloc memory", hipMemAdvise(host.at(), page, preferred, 0)},
      {"pageable memory", hipMemAdvise(&pageable, sizeof(pageable), preferred, 0)},
      {"hipInvalidDeviceId",
       hipMemAdvise(some.at(), page, hipMemAdviseSetAccessedBy, hipInvalidDeviceId),
       hipErrorInvalidDevice},
  });
}

TIDY_CASE("hipMemAdvise: read mostly looks at no device") {
  const managed some{page};
  CHECK(hipMemAdvise(some.at(), page, hipMemAdviseSetReadMostly, 99) == hipSuccess);
  CHECK(hipMemAdvise(some.at(), page, hipMemAdviseUnsetReadMostly, -12) == hipSuccess);
}

TIDY_CASE("hipMemAdvise_v2: a location names the device or the host") {
  const managed some{page};
  const auto prefer = [&](int type, int id) {
    hipMemLocation location{hipMemLocationTypeInvalid, id};
    std::memcpy(&location.type, &type, sizeof(location.type));
    return hipMemAdvise_v2(some.at(), page, hipMemAdviseSetPreferredLocation, location);
  };
  const auto preferred = [&] {
    return attribute(hipMemRangeAttributePreferredLocation, some.at(), page);
  };
  CHECK(prefer(hipMemLocationTypeDevice, 1) == hipSuccess);
  CHECK(preferred() == 1);
  for (const int type : {hipvmm::hip_compat::host_location, hipvmm::hip_compat::host_node_location,
                         hipvmm::hip_compat::nearest_host_node_location}) {
    advise(some.at(), page, hipMemAdviseSetPreferredLocation, 2);
    CHECK(prefer(type, 7) == hipSuccess);
    CHECK(preferred() == cpu);
  }
  advise(some.at(), page, hipMemAdviseSetPreferredLocation, 2);
  check_refusals({
      {"no location", prefer(hipMemLocationTypeInvalid, 0)},
      {"unknown location", prefer(9, 0)},
      {"no such device", prefer(hipMemLocationTypeDevice, 3), hipErrorInvalidDevice},
      {"the host as a device", prefer(hipMemLocationTypeDevice, hipInvalidDeviceId),
       hipErrorInvalidDevice},
      {"null",
       hipMemAdvise_v2(nullptr, page, hipMemAdviseSetReadMostly, {hipMemLocationTypeDevice, 0})},
  });
  CHECK(preferred() == 2);
}

TEST_CASE("hip_compat: a place of advice is an ordinal or a location, as the header takes it") {
  const hipMemLocation device = hipvmm::hip_compat::advice_place{2};
  CHECK(hipvmm::provider::ordinal_of(device) == 2);
  const hipMemLocation host = hipvmm::hip_compat::advice_place{cpu};
  CHECK(hipvmm::provider::ordinal_of(host) == cpu);
  const int ordinal = hipvmm::hip_compat::advice_place{2};
  CHECK(ordinal == 2);
}

TIDY_CASE("hipMemRangeGetAttribute: arguments outside the rules are refused") {
  const managed some{page};
  const allocation device{page};
  const pinned host{page};
  std::array<int, 3> data{};
  const auto ask = [&](hipMemRangeAttribute attribute, std::size_t bytes) {
    return hipMemRangeGetAttribute(data.data(), bytes, attribute, some.at(), page);
  };
  constexpr auto mostly = hipMemRangeAttributeReadMostly;
  check_refusals({
      {"null data", hipMemRangeGetAttribute(nullptr, 4, mostly, some.at(), page)},
      {"null pointer", hipMemRangeGetAttribute(data.data(), 4, mostly, nullptr, page)},
      {"no bytes", hipMemRangeGetAttribute(data.data(), 4, mostly, some.at(), 0)},
      {"beyond the end", hipMemRangeGetAttribute(data.data(), 4, mostly, some.at(), page + 1)},
      {"hipMalloc memory", hipMemRangeGetAttribute(data.data(), 4, mostly, device.at(), page)},
      {"hipHostMalloc memory", hipMemRangeGetAttribute(data.data(), 4, mostly, host.at(), page)},
      {"no room", ask(mostly, 0)},
      {"read mostly, 8 bytes", ask(mostly, 8)},
      {"preferred, 8 bytes", ask(hipMemRangeAttributePreferredLocation, 8)},
      {"prefetch, 8 bytes", ask(hipMemRangeAttributeLastPrefetchLocation, 8)},
      {"coherency, 8 bytes", ask(hipMemRangeAttributeCoherencyMode, 8)},
      {"accessed by, 10 bytes", ask(hipMemRangeAttributeAccessedBy, 10)},
      {"accessed by, no bytes", ask(hipMemRangeAttributeAccessedBy, 0)},
  });
}

TIDY_CASE("hipMemRangeGetAttributes: one bad attribute leaves every answer unwritten") {
  const managed some{page};
  int first = 77;
  int second = 77;
  std::array<void*, 2> data{&first, &second};
  std::array<std::size_t, 2> sizes{4, 4};
  std::array<hipMemRangeAttribute, 2> wanted{hipMemRangeAttributeReadMostly,
                                             hipMemRangeAttributePreferredLocation};
  const auto ask = [&](std::size_t count = 2) {
    return hipMemRangeGetAttributes(data.data(), sizes.data(), wanted.data(), count, some.at(),
                                    page);
  };
  check_refusals({
      {"null data",
       hipMemRangeGetAttributes(nullptr, sizes.data(), wanted.data(), 2, some.at(), 1)},
      {"null sizes",
       hipMemRangeGetAttributes(data.data(), nullptr, wanted.data(), 2, some.at(), 1)},
      {"null attributes",
       hipMemRangeGetAttributes(data.data(), sizes.data(), nullptr, 2, some.at(), 1)},
      {"null pointer",
       hipMemRangeGetAttributes(data.data(), sizes.data(), wanted.data(), 2, nullptr, 1)},
  });
  sizes[1] = 5;
  CHECK(ask() == hipErrorInvalidValue);
  sizes[1] = 4;
  data[1] = nullptr;
  CHECK(ask() == hipErrorInvalidValue);
  data[1] = &second;
  wanted[1] = not_an_enumerator<hipMemRangeAttribute>(999);
  CHECK(ask() == hipErrorInvalidValue);
  CHECK(first == 77);
}

TIDY_CASE("hipStreamAttachMemAsync: arguments outside the rules are refused") {
  const managed some{2 * page, hipMemAttachHost};
  const stream work;
  int pageable = 0;
  check_refusals({
      {"no flags", hipStreamAttachMemAsync(work.get(), some.at(), 0, 0)},
      {"pageable", hipStreamAttachMemAsync(work.get(), &pageable, 4, hipMemAttachSingle)},
  });
  CHECK(hipStreamAttachMemAsync(work.get(), some.at(), 0, hipMemAttachSingle) == hipSuccess);
  CHECK(hipStreamAttachMemAsync(nullptr, some.at(), 2 * page, hipMemAttachGlobal) == hipSuccess);
}
