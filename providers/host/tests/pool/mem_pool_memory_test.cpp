// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstring>

#include "mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr auto reserved = hipMemPoolAttrReservedMemCurrent;
constexpr auto reserved_high = hipMemPoolAttrReservedMemHigh;
constexpr auto used_high = hipMemPoolAttrUsedMemHigh;
constexpr auto threshold = hipMemPoolAttrReleaseThreshold;

// Fills a pool, which keeps its memory until told otherwise, with idle blocks of these sizes.
void fill(const pool& source, std::initializer_list<std::size_t> sizes) {
  source.set(threshold, device_budget);
  std::vector<void*> blocks;
  for (const std::size_t bytes : sizes) blocks.push_back(source.allocate(bytes, nullptr));
  for (void* const each : blocks) free_in(each, nullptr);
}

}  // namespace

POOL_CASE("mem_pool: counts bytes as they were asked for, and the most of them") {
  std::byte* const first = source.allocate(2048, nullptr);
  std::byte* const second = source.allocate(100, nullptr);
  CHECK(source.count(used_now) == 2148);
  CHECK(source.count(reserved) == 2148);
  free_in(first, nullptr);
  CHECK(source.count(used_now) == 100);
  CHECK(source.count(used_high) == 2148);
  CHECK(source.count(reserved_high) == 2148);
  free_in(second, nullptr);
}

POOL_CASE("mem_pool: a free counts when it is submitted") {
  pending_free freed{source};
  CHECK(source.count(used_now) == 0);
  CHECK(source.count(reserved) == mib);
}

POOL_CASE("mem_pool: the high marks become zero when zero is written") {
  std::byte* const block = source.allocate(mib, nullptr);
  source.set(used_high, 0);
  source.set(reserved_high, 0);
  CHECK(source.count(used_high) == 0);
  CHECK(source.count(reserved_high) == 0);
  free_in(block, nullptr);
}

POOL_CASE("mem_pool: what it holds counts against the device, with chunks and hipMalloc") {
  const stream work;
  std::byte* const block = source.allocate(device_budget - mib, work.get());
  CHECK(hipvmm_host_device_bytes(0) == device_budget - mib);
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, 2 * mib) == hipErrorOutOfMemory);
  CHECK(hipMallocAsync(&pointer, 2 * mib, work.get()) == hipErrorOutOfMemory);
  free_in(block, work.get());
}

POOL_CASE("mem_pool: an allocation that fails leaves the counts as they were") {
  void* pointer = nullptr;
  CHECK(hipMallocFromPoolAsync(&pointer, device_budget + 1, source.get(), nullptr) ==
        hipErrorOutOfMemory);
  CHECK(source.count(used_high) == 0);
  CHECK(source.count(reserved_high) == 0);
}

POOL_CASE("mem_pool: memory above the threshold goes back when the stream is waited for") {
  pending_free freed{source};
  CHECK(hipvmm_host_device_bytes(0) == mib);
  freed.ahead.open();
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(source.count(reserved) == 0);
}

POOL_CASE("mem_pool: memory above the threshold goes back when the device is waited for") {
  free_in(source.allocate(mib, nullptr), nullptr);
  CHECK(source.count(reserved) == mib);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(source.count(reserved) == 0);
}

POOL_CASE("mem_pool: memory above the threshold goes back when an event is waited for") {
  const event mark;
  free_in(source.allocate(mib, nullptr), nullptr);
  REQUIRE(hipEventRecord(mark.get(), nullptr) == hipSuccess);
  CHECK(hipEventSynchronize(mark.get()) == hipSuccess);
  CHECK(source.count(reserved) == 0);
}

POOL_CASE("mem_pool: a query gives nothing back") {
  free_in(source.allocate(mib, nullptr), nullptr);
  CHECK(hipStreamQuery(nullptr) == hipSuccess);
  CHECK(source.count(reserved) == mib);
}

POOL_CASE("mem_pool: synchronising keeps as many bytes as the threshold says") {
  fill(source, {mib, 2 * mib, 4 * mib});
  source.set(threshold, 4 * mib);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(source.count(reserved) == 4 * mib);
}

POOL_CASE(
    "hipMemPoolTrimTo: releases small blocks first until no more than the bytes named are left") {
  fill(source, {mib, 2 * mib, 4 * mib});
  CHECK(hipMemPoolTrimTo(source.get(), 7 * mib) == hipSuccess);
  CHECK(source.count(reserved) == 7 * mib);
  CHECK(hipMemPoolTrimTo(source.get(), 5 * mib) == hipSuccess);
  CHECK(source.count(reserved) == 4 * mib);
  CHECK(hipMemPoolTrimTo(source.get(), 0) == hipSuccess);
  CHECK(source.count(reserved) == 0);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

POOL_CASE("hipMemPoolTrimTo: a free that has not been reached holds its block") {
  pending_free freed{source};
  CHECK(hipMemPoolTrimTo(source.get(), 0) == hipSuccess);
  CHECK(source.count(reserved) == mib);
}

TIDY_CASE("mem_pool: idle memory of all pools is used before an allocation fails") {
  const pool hoarding;
  const pool wanting;
  fill(hoarding, {device_budget});
  std::byte* const block = wanting.allocate(mib, nullptr);
  CHECK(hoarding.count(reserved) == 0);
  free_in(block, nullptr);
}

TIDY_CASE("mem_pool: its largest size is kept to") {
  hipMemPoolProps properties = pool_on(0);
  const std::uint64_t most = 8 * mib;
  // Newer headers call the first reserved bytes maxSize.
  std::memcpy(reinterpret_cast<std::byte*>(&properties) + sizeof(properties) - 64, &most,
              sizeof(most));
  const pool source{properties};
  std::byte* const block = source.allocate(5 * mib, nullptr);
  void* pointer = nullptr;
  CHECK(hipMallocFromPoolAsync(&pointer, 4 * mib, source.get(), nullptr) == hipErrorOutOfMemory);
  free_in(block, nullptr);
  std::byte* const other = source.allocate(4 * mib, nullptr);
  CHECK(source.count(reserved) == 4 * mib);
  free_in(other, nullptr);
}

POOL_CASE("hipFree: waits for the streams and takes memory of a pool back") {
  const stream work;
  std::byte* const block = source.allocate(mib, work.get());
  REQUIRE(hipMemsetAsync(block, 1, mib, work.get()) == hipSuccess);
  CHECK(hipFree(block) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(source.count(used_now) == 0);
  CHECK(hipFree(block) == hipErrorInvalidValue);
}

POOL_CASE("hipFree: gives the block to any stream, whatever the switches") {
  const stream first;
  const stream second;
  source.allow_only({});
  std::byte* const block = source.allocate(mib, first.get());
  CHECK(hipFree(block) == hipSuccess);
  CHECK(source.allocate(mib, second.get()) == block);
  free_in(block, second.get());
}

WORK_CASE("hipFreeAsync: frees memory of hipMalloc, waiting for the device") {
  void* pointer = nullptr;
  REQUIRE(hipMalloc(&pointer, mib) == hipSuccess);
  REQUIRE(hipMemsetAsync(pointer, 1, mib, work.get()) == hipSuccess);
  CHECK(hipFreeAsync(pointer, work.get()) == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(work.wait() == hipSuccess);
}
