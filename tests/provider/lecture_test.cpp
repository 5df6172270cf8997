// SPDX-License-Identifier: MIT
// The host side of the code in CSC's lecture "Memory allocations, access, and unified memory", with
// fills or host functions where it has kernels.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <set>

#include "managed_fixture.hpp"
#include "mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t element_count = 10'000;
constexpr std::size_t lecture_bytes = element_count * sizeof(int);

// Stands for a kernel that doubles each element of `ints`, which must be host accessible.
void double_all(void* ints) {
  std::transform(static_cast<int*>(ints), static_cast<int*>(ints) + element_count,
                 static_cast<int*>(ints), [](int each) { return 2 * each; });
}

}  // namespace

TEST_CASE("lecture: explicit memory management") {
  const nothing_left check;
  std::vector<int> host(element_count, 21);
  int* device = nullptr;
  REQUIRE(hipMalloc(reinterpret_cast<void**>(&device), lecture_bytes) == hipSuccess);
  CHECK(hipMemcpy(device, host.data(), lecture_bytes, hipMemcpyHostToDevice) == hipSuccess);
  CHECK(hipLaunchHostFunc(nullptr, double_all, device) == hipSuccess);
  CHECK(hipMemcpy(host.data(), device, lecture_bytes, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(hipFree(device) == hipSuccess);
  CHECK(host == std::vector<int>(element_count, 42));
}

TEST_CASE("lecture: unified memory management") {
  const nothing_left check;
  int* both = nullptr;
  REQUIRE(hipMallocManaged(reinterpret_cast<void**>(&both), lecture_bytes) == hipSuccess);
  std::fill_n(both, element_count, 21);
  CHECK(hipLaunchHostFunc(nullptr, double_all, both) == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(std::count(both, both + element_count, 42) == element_count);
  CHECK(hipFree(both) == hipSuccess);
}

TEST_CASE("lecture: host memory that the device uses in place") {
  const nothing_left check;
  int* both = nullptr;
  REQUIRE(hipHostMalloc(reinterpret_cast<void**>(&both), lecture_bytes) == hipSuccess);
  std::fill_n(both, element_count, 21);
  CHECK(hipLaunchHostFunc(nullptr, double_all, both) == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(std::count(both, both + element_count, 42) == element_count);
  CHECK(hipHostFree(both) == hipSuccess);
}

TEST_CASE("lecture: page-locked memory may be freed by its older name") {
  const nothing_left check;
  void* pointer = nullptr;
  REQUIRE(hipHostMalloc(&pointer, lecture_bytes) == hipSuccess);
  CHECK(hipFreeHost(pointer) == hipSuccess);
}

TEST_CASE("lecture: every kind of copy does what it says") {
  const nothing_left check;
  const allocation device{64};
  const allocation other{64};
  const std::vector<std::byte> sent = counted_bytes(64);
  std::vector<std::byte> middle(64);
  std::vector<std::byte> back(64);
  CHECK(hipMemcpy(middle.data(), sent.data(), 64, hipMemcpyHostToHost) == hipSuccess);
  CHECK(hipMemcpy(device.at(), middle.data(), 64, hipMemcpyHostToDevice) == hipSuccess);
  CHECK(hipMemcpy(other.at(), device.at(), 64, hipMemcpyDeviceToDevice) == hipSuccess);
  CHECK(hipMemcpy(back.data(), other.at(), 64, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(back == sent);
  std::fill(back.begin(), back.end(), std::byte{0});
  CHECK(hipMemcpy(back.data(), device.at(), 64, hipMemcpyDefault) == hipSuccess);
  CHECK(back == sent);
}

TEST_CASE("lecture: only a copy to page-locked memory is under way while the host goes on") {
  const nothing_left check;
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

TEST_CASE("lecture: unified memory is prefetched and advised") {
  const nothing_left check;
  const managed both{lecture_bytes};
  CHECK(hipMemAdvise(both.at(), lecture_bytes, hipMemAdviseSetPreferredLocation, 0) == hipSuccess);
  CHECK(hipMemPrefetchAsync(both.at(), lecture_bytes, 0, nullptr) == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(residence(both.at()) == std::vector<int>{0});
}

TEST_CASE("lecture: hipMalloc in a loop takes memory from the device each time") {
  const nothing_left check;
  const stream work;
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

TEST_CASE("lecture: hipMallocAsync in a loop takes memory once and waits for nothing") {
  const nothing_left check;
  const stream work;
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

TEST_CASE("lecture: the release threshold keeps memory in the pool") {
  HIPVMM_SKIP_UNDER(threshold_ignored);
  const nothing_left check;
  const stream work;
  hipMemPool_t standard = nullptr;
  REQUIRE(hipDeviceGetDefaultMemPool(&standard, 0) == hipSuccess);
  std::uint64_t threshold = lecture_bytes;
  REQUIRE(hipMemPoolSetAttribute(standard, hipMemPoolAttrReleaseThreshold, &threshold) ==
          hipSuccess);
  void* pointer = nullptr;
  REQUIRE(hipMallocAsync(&pointer, lecture_bytes, work.get()) == hipSuccess);
  REQUIRE(hipFreeAsync(pointer, work.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == lecture_bytes);
  threshold = 0;
  REQUIRE(hipMemPoolSetAttribute(standard, hipMemPoolAttrReleaseThreshold, &threshold) ==
          hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}
