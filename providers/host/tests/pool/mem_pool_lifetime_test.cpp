// SPDX-License-Identifier: MIT
// Pools that come and go, the default and the current one, and many users of one.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <future>

#include "mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

hipMemPool_t default_pool(int device) {
  hipMemPool_t found = nullptr;
  REQUIRE(hipDeviceGetDefaultMemPool(&found, device) == hipSuccess);
  return found;
}

hipMemPool_t current_pool(int device) {
  hipMemPool_t found = nullptr;
  REQUIRE(hipDeviceGetMemPool(&found, device) == hipSuccess);
  return found;
}

}  // namespace

TIDY_CASE("mem_pool: destroying it leaves held memory usable until that is freed") {
  pool source;
  const stream work;
  std::byte* const block = source.allocate(mib, work.get());
  source.destroy();
  CHECK(live_objects().pools == 0);
  CHECK(live_objects().allocations == 1);
  REQUIRE(work.wait() == hipSuccess);
  CHECK(fill_and_wait(block, 1, mib) == hipSuccess);
  free_in(block, work.get());
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

TIDY_CASE("mem_pool: a destroyed pool gives a block back once its free has been reached") {
  pool source{pool_on(0, hipMemHandleTypePosixFileDescriptor)};
  pending_free freed{source};
  source.destroy();
  CHECK(hipvmm_host_device_bytes(0) == mib);
  freed.ahead.open();
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(live_objects().descriptors == 0);
}

TIDY_CASE("mem_pool: hipMallocAsync takes from the current pool of the stream's device") {
  const pool mine{pool_on(1)};
  const stream work{hipStreamNonBlocking, 1};
  REQUIRE(hipDeviceSetMemPool(1, mine.get()) == hipSuccess);
  CHECK(current_pool(1) == mine.get());
  void* pointer = nullptr;
  REQUIRE(hipMallocAsync(&pointer, mib, work.get()) == hipSuccess);
  CHECK(mine.count(used_now) == mib);
  CHECK(hipvmm_host_device_bytes(1) == mib);
  free_in(pointer, work.get());
}

TIDY_CASE("mem_pool: hipMalloc does not come from the default pool") {
  const allocation device{mib};
  std::uint64_t bytes = 99;
  CHECK(hipMemPoolGetAttribute(default_pool(0), used_now, &bytes) == hipSuccess);
  CHECK(bytes == 0);
}

TIDY_CASE("mem_pool: counters follow pools and the memory lent from them") {
  const hipvmm_host_counters before = live_objects();
  {
    const pool source;
    std::byte* const block = source.allocate(64, nullptr);
    CHECK(live_objects().pools == before.pools + 1);
    CHECK(live_objects().allocations == before.allocations + 1);
    free_in(block, nullptr);
    CHECK(live_objects().allocations == before.allocations);
  }
  CHECK(live_objects() == before);
}

POOL_CASE("mem_pool: threads that allocate, fill and free share one pool") {
  source.set(hipMemPoolAttrReleaseThreshold, 4 * mib);
  const auto work = [this](int value) {
    hipStream_t own = nullptr;
    bool good = hipStreamCreateWithFlags(&own, hipStreamNonBlocking) == hipSuccess;
    const auto bytes = static_cast<std::size_t>(value) * 4096;
    std::byte last{};
    for (int round = 0; round < 50; ++round) {
      void* block = nullptr;
      good = hipMallocFromPoolAsync(&block, bytes, source.get(), own) == hipSuccess && good;
      good = hipMemsetAsync(block, value, bytes, own) == hipSuccess && good;
      const std::byte* const end = static_cast<std::byte*>(block) + bytes - 1;
      good = hipMemcpyAsync(&last, end, 1, hipMemcpyDefault, own) == hipSuccess && good;
      good = last == static_cast<std::byte>(value) && good;
      good = hipFreeAsync(block, own) == hipSuccess && good;
      if (round % 8 == 0) good = hipStreamSynchronize(own) == hipSuccess && good;
    }
    return hipStreamDestroy(own) == hipSuccess && good;
  };
  std::vector<std::future<bool>> threads;
  for (int value = 1; value <= 4; ++value) {
    threads.push_back(std::async(std::launch::async, work, value));
  }
  for (std::future<bool>& each : threads) CHECK(each.get());
  CHECK(source.count(used_now) == 0);
}
