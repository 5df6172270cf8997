// SPDX-License-Identifier: MIT
// The host side of the code in CSC's lecture "Memory allocations, access, and unified memory", with
// fills or host functions in place of its kernels.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <set>

#include "providers/host/tests/memory/managed_fixture.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t lecture_bytes = 10'000 * sizeof(int);

}  // namespace

TIDY_CASE("lecture: only a copy to page-locked memory is under way while the host goes on") {
  const allocation device{lecture_bytes};
  const pinned locked{lecture_bytes};
  std::vector<std::byte> pageable(lecture_bytes);
  REQUIRE(fill_and_wait(device.at(), 3, lecture_bytes) == hipSuccess);
  const stream work;
  {
    const held_streams held;
    CHECK(hipMemcpyAsync(locked.at(), device.at(), lecture_bytes, hipMemcpyDeviceToHost,
                         work.get()) == hipSuccess);
    CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  }
  CHECK(hipMemcpyAsync(pageable.data(), device.at(), lecture_bytes, hipMemcpyDeviceToHost,
                       work.get()) == hipSuccess);
  CHECK(equal(pageable.data(), bytes_of(lecture_bytes, 3)));
  CHECK(work.wait() == hipSuccess);
  CHECK(equal(locked.at(), bytes_of(lecture_bytes, 3)));
}

WORK_CASE("lecture: hipMalloc in a loop takes memory from the device each time") {
  for (int i = 0; i < 100; ++i) {
    void* pointer = nullptr;
    REQUIRE(hipMalloc(&pointer, lecture_bytes) == hipSuccess);
    CHECK(hipMemsetAsync(pointer, i, lecture_bytes, work.get()) == hipSuccess);
    CHECK(hipvmm_host_device_bytes(0) == lecture_bytes);
    REQUIRE(hipFree(pointer) == hipSuccess);
    CHECK(hipStreamQuery(work.get()) == hipSuccess);  // freeing has waited
    CHECK(hipvmm_host_device_bytes(0) == 0);
  }
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
}

WORK_CASE("lecture: hipMallocAsync in a loop takes memory once and waits for nothing") {
  std::set<void*> places;
  {
    const held_streams held;
    for (int i = 0; i < 100; ++i) {
      void* pointer = nullptr;
      REQUIRE(hipMallocAsync(&pointer, lecture_bytes, work.get()) == hipSuccess);
      CHECK(hipMemsetAsync(pointer, i, lecture_bytes, work.get()) == hipSuccess);
      REQUIRE(hipFreeAsync(pointer, work.get()) == hipSuccess);
      places.insert(pointer);
    }
    CHECK(hipvmm_host_device_bytes(0) == lecture_bytes);
  }
  CHECK(places.size() == 1);
  CHECK(work.wait() == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}
