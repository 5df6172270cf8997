// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <limits>

#include "mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr auto flag = hipMemPoolReuseAllowOpportunistic;
const auto bad_stream = as_handle<hipStream_t>(std::numeric_limits<std::uintptr_t>::max());

hipError_t create(const hipMemPoolProps& properties) {
  hipMemPool_t made = nullptr;
  return hipMemPoolCreate(&made, &properties);
}

void check_no_pool(hipMemPool_t handle) {
  void* pointer = nullptr;
  int value = 0;
  hipMemAccessFlags flags{};
  hipMemLocation location{hipMemLocationTypeDevice, 0};
  const hipMemAccessDesc access = access_of(0);
  hipMemPoolPtrExportData data{};
  check_refusals({
      {"allocate", hipMallocFromPoolAsync(&pointer, 64, handle, nullptr)},
      {"allocate nothing", hipMallocFromPoolAsync(&pointer, 0, handle, nullptr)},
      {"destroy", hipMemPoolDestroy(handle)},
      {"trim", hipMemPoolTrimTo(handle, 0)},
      {"set attribute", hipMemPoolSetAttribute(handle, flag, &value)},
      {"get attribute", hipMemPoolGetAttribute(handle, flag, &value)},
      {"set access", hipMemPoolSetAccess(handle, &access, 1)},
      {"get access", hipMemPoolGetAccess(&flags, handle, &location)},
      {"export",
       hipMemPoolExportToShareableHandle(&value, handle, hipMemHandleTypePosixFileDescriptor, 0)},
      {"import pointer", hipMemPoolImportPointer(&pointer, handle, &data)},
      {"make current", hipDeviceSetMemPool(0, handle)},
  });
}

}  // namespace

TIDY_CASE("hipMemPoolCreate: properties outside the rules are refused") {
  const hipMemPoolProps good = pool_on(0);
  hipMemPoolProps place = good;
  place.location.type = hipMemLocationTypeInvalid;
  check_refusals({
      {"location type", create(place)},
      {"negative device", create(pool_on(-1))},
  });
}

TIDY_CASE("hipMallocAsync: arguments outside the rules are refused") {
  void* pointer = nullptr;
  check_refusals({
      {"stream", hipMallocAsync(&pointer, 64, bad_stream), hipErrorInvalidHandle},
      {"more than the device has", hipMallocAsync(&pointer, device_budget + 1, nullptr),
       hipErrorOutOfMemory},
  });
}

POOL_CASE("hipMallocFromPoolAsync: arguments outside the rules are refused") {
  void* pointer = nullptr;
  check_refusals({
      {"null result",
       hipMallocFromPoolAsync(static_cast<void**>(nullptr), 64, source.get(), nullptr)},
      {"stream", hipMallocFromPoolAsync(&pointer, 64, source.get(), bad_stream),
       hipErrorInvalidHandle},
  });
}

TIDY_CASE("hipMallocAsync: no bytes are a null pointer") {
  void* pointer = &pointer;
  CHECK(hipMallocAsync(&pointer, 0, nullptr) == hipSuccess);
  CHECK(pointer == nullptr);
}

POOL_CASE("hipFreeAsync: what is not the start of memory in use is refused") {
  const pinned host{64};
  int pageable = 0;
  std::byte* const held = source.allocate(64, nullptr);
  check_refusals({
      {"stream", hipFreeAsync(held, bad_stream), hipErrorInvalidHandle},
      {"host memory", hipFreeAsync(&pageable, nullptr)},
      {"pinned memory", hipFreeAsync(host.at(), nullptr)},
  });
  free_in(held, nullptr);
  CHECK(hipFreeAsync(held, nullptr) == hipErrorInvalidValue);
}

TIDY_CASE("mem_pool: a handle that was never given out is refused") {
  const stream other;
  check_no_pool(nullptr);
  check_no_pool(as_handle<hipMemPool_t>(0xDEADBEEF));
  check_no_pool(reinterpret_cast<hipMemPool_t>(other.get()));
}

TIDY_CASE("mem_pool: a handle is refused once it is destroyed") {
  pool leaving;
  const hipMemPool_t handle = leaving.get();
  leaving.destroy();
  check_no_pool(handle);
}

TIDY_CASE("hipMemPoolGetAttribute: gives what was set") {
  const pool asked;
  for (const auto each :
       {hipMemPoolReuseFollowEventDependencies, flag, hipMemPoolReuseAllowInternalDependencies}) {
    CAPTURE(static_cast<int>(each));
    int value = 0;
    CHECK(hipMemPoolGetAttribute(asked.get(), each, &value) == hipSuccess);
    CHECK(value == 1);
    value = 0;
    CHECK(hipMemPoolSetAttribute(asked.get(), each, &value) == hipSuccess);
    value = 99;
    CHECK(hipMemPoolGetAttribute(asked.get(), each, &value) == hipSuccess);
    CHECK(value == 0);
  }
  CHECK(asked.count(hipMemPoolAttrReleaseThreshold) == 0);
  asked.set(hipMemPoolAttrReleaseThreshold, 12345);
  CHECK(asked.count(hipMemPoolAttrReleaseThreshold) == 12345);
}

TIDY_CASE("hipMemPoolSetAccess: descriptors outside the rules are refused") {
  const pool changed;
  const auto set = [&](hipMemAccessDesc wanted, std::size_t count = 1) {
    return hipMemPoolSetAccess(changed.get(), &wanted, count);
  };
  hipMemAccessDesc place = access_of(1);
  place.location.type = hipMemLocationTypeInvalid;
  constexpr auto device = hipErrorInvalidDevice;
  check_refusals({
      {"more than devices", set(access_of(0), 4), device},
      {"location type", set(place)},
      {"negative device", set(access_of(-1)), device},
      {"device without a link", set(access_of(2)), device},
  });
}

TIDY_CASE("hipMemPoolGetAccess: arguments outside the rules are refused") {
  const pool asked;
  hipMemAccessFlags flags{};
  hipMemLocation good{hipMemLocationTypeDevice, 0};
  check_refusals({
      {"null result", hipMemPoolGetAccess(nullptr, asked.get(), &good)},
      {"null location", hipMemPoolGetAccess(&flags, asked.get(), nullptr)},
  });
}

TIDY_CASE("hipDeviceSetMemPool: arguments outside the rules are refused") {
  const pool one{pool_on(1)};
  hipMemPool_t made = nullptr;
  check_refusals({
      {"negative device", hipDeviceSetMemPool(-1, one.get())},
      {"get: null", hipDeviceGetMemPool(nullptr, 0)},
      {"get: negative device", hipDeviceGetMemPool(&made, -1)},
      {"default: null", hipDeviceGetDefaultMemPool(nullptr, 0)},
      {"default: negative device", hipDeviceGetDefaultMemPool(&made, -1), hipErrorInvalidDevice},
  });
}
