// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <set>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

hipMemGenericAllocationHandle_t new_chunk() {
  const hipMemAllocationProp properties = chunk_on(0);
  hipMemGenericAllocationHandle_t handle = nullptr;
  REQUIRE(hipMemCreate(&handle, granule, &properties, 0) == hipSuccess);
  return handle;
}

void check_no_chunk(hipMemGenericAllocationHandle_t handle) {
  const reservation addresses{granule};
  hipMemAllocationProp properties{};
  int descriptor = -1;
  check_refusals({
      {"hipMemMap", hipMemMap(addresses.at(), granule, 0, handle, 0)},
      {"properties", hipMemGetAllocationPropertiesFromHandle(&properties, handle)},
      {"export",
       hipMemExportToShareableHandle(&descriptor, handle, hipMemHandleTypePosixFileDescriptor, 0)},
      {"hipMemRelease", hipMemRelease(handle)},
  });
}

void check_no_stream(hipStream_t handle) {
  const allocation device{64};
  const event mark;
  unsigned flags = 0;
  int priority = 0;
  const auto callback = [](hipStream_t, hipError_t, void*) {};
  hipArrayMapInfo map{};
  constexpr auto expected = hipErrorInvalidHandle;
  check_refusals({
      {"destroy", hipStreamDestroy(handle), expected},
      {"synchronize", hipStreamSynchronize(handle), expected},
      {"query", hipStreamQuery(handle), expected},
      {"wait", hipStreamWaitEvent(handle, mark.get(), 0), expected},
      {"flags", hipStreamGetFlags(handle, &flags), expected},
      {"priority", hipStreamGetPriority(handle, &priority), expected},
      {"callback", hipStreamAddCallback(handle, callback, nullptr, 0), expected},
      {"host function",
       hipLaunchHostFunc(
           handle, [](void*) {}, nullptr),
       expected},
      {"record", hipEventRecord(mark.get(), handle), expected},
      {"fill", hipMemsetAsync(device.at(), 0, 64, handle), expected},
      {"fill of nothing", hipMemsetAsync(device.at(), 0, 0, handle), expected},
      {"copy", hipMemcpyAsync(device.at(), device.at(32), 32, hipMemcpyDefault, handle), expected},
      {"copy of nothing", hipMemcpyAsync(device.at(), device.at(), 0, hipMemcpyDefault, handle),
       expected},
      {"peer copy", hipMemcpyPeerAsync(device.at(), 0, device.at(32), 0, 32, handle), expected},
      {"map array", hipMemMapArrayAsync(&map, 1, handle), expected},
  });
  CHECK(hipGetStreamDeviceId(handle) == -1);
}

// `good` is another event, which must not get the handle that the case asks for.
void check_no_event(hipEvent_t handle, const event& good = event{}) {
  float milliseconds = 0;
  constexpr auto expected = hipErrorInvalidHandle;
  check_refusals({
      {"destroy", hipEventDestroy(handle), expected},
      {"record", hipEventRecord(handle, nullptr), expected},
      {"synchronize", hipEventSynchronize(handle), expected},
      {"query", hipEventQuery(handle), expected},
      {"wait", hipStreamWaitEvent(nullptr, handle, 0), expected},
      {"elapsed from", hipEventElapsedTime(&milliseconds, handle, good.get()), expected},
      {"elapsed to", hipEventElapsedTime(&milliseconds, good.get(), handle), expected},
  });
}

}  // namespace

TIDY_CASE("handle: a chunk handle that was never given out is refused") {
  long somewhere = 0;
  check_no_chunk(nullptr);
  check_no_chunk(as_handle<hipMemGenericAllocationHandle_t>(0xDEADBEEF));
  check_no_chunk(
      as_handle<hipMemGenericAllocationHandle_t>(reinterpret_cast<std::uintptr_t>(&somewhere)));
}

TIDY_CASE("handle: a chunk handle is refused after its last release") {
  const auto handle = new_chunk();
  REQUIRE(hipMemRelease(handle) == hipSuccess);
  check_no_chunk(handle);
}

TIDY_CASE("handle: a chunk handle is never given out again") {
  std::set<hipMemGenericAllocationHandle_t> seen;
  for (int i = 0; i < 100; ++i) {
    const auto handle = new_chunk();
    REQUIRE(hipMemRelease(handle) == hipSuccess);
    CHECK(seen.insert(handle).second);
  }
}

TIDY_CASE("handle: a stream handle that was never given out is refused") {
  long somewhere = 0;
  check_no_stream(as_handle<hipStream_t>(0xDEADBEEF));
  check_no_stream(as_handle<hipStream_t>(reinterpret_cast<std::uintptr_t>(&somewhere)));
}

TIDY_CASE("handle: a stream handle is refused once it is destroyed") {
  hipStream_t handle = nullptr;
  REQUIRE(hipStreamCreate(&handle) == hipSuccess);
  REQUIRE(hipStreamDestroy(handle) == hipSuccess);
  check_no_stream(handle);
}

TIDY_CASE("handle: the null and per-thread streams cannot be destroyed") {
  CHECK(hipStreamDestroy(nullptr) == hipErrorInvalidHandle);
  CHECK(hipStreamDestroy(hipStreamPerThread) == hipErrorInvalidHandle);
}

TIDY_CASE("handle: an event handle that was never given out is refused") {
  long somewhere = 0;
  check_no_event(nullptr);
  check_no_event(as_handle<hipEvent_t>(0xDEADBEEF));
  check_no_event(as_handle<hipEvent_t>(reinterpret_cast<std::uintptr_t>(&somewhere)));
}

TIDY_CASE("handle: an event handle is refused once it is destroyed") {
  const event good;
  hipEvent_t handle = nullptr;
  REQUIRE(hipEventCreate(&handle) == hipSuccess);
  REQUIRE(hipEventDestroy(handle) == hipSuccess);
  check_no_event(handle, good);
}

TIDY_CASE("handle: one kind of object does not pass for another") {
  const memory chunk{granule};
  const stream work;
  const event mark;
  check_no_chunk(reinterpret_cast<hipMemGenericAllocationHandle_t>(work.get()));
  check_no_stream(reinterpret_cast<hipStream_t>(mark.get()));
  check_no_event(reinterpret_cast<hipEvent_t>(chunk.get()));
}
