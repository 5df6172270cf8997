// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <optional>

#include "providers/host/tests/graph/capture_fixtures.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

void* allocate() {
  void* pointer = nullptr;
  REQUIRE(hipMalloc(&pointer, mib) == hipSuccess);
  return pointer;
}

hipStream_t create_stream() {
  hipStream_t made = nullptr;
  REQUIRE(hipStreamCreate(&made) == hipSuccess);
  return made;
}

hipMemPool_t new_pool() {
  const hipMemPoolProps properties = pool_on(0);
  hipMemPool_t made = nullptr;
  REQUIRE(hipMemPoolCreate(&made, &properties) == hipSuccess);
  return made;
}

hipMemPool_t default_pool() {
  hipMemPool_t found = nullptr;
  REQUIRE(hipDeviceGetDefaultMemPool(&found, 0) == hipSuccess);
  return found;
}

}  // namespace

TIDY_CASE("hipDeviceReset: frees memory of pools, and what they keep") {
  std::uint64_t keep = 64 * mib;
  REQUIRE(hipMemPoolSetAttribute(default_pool(), hipMemPoolAttrReleaseThreshold, &keep) ==
          hipSuccess);
  void* held = nullptr;
  void* idle = nullptr;
  REQUIRE(hipMallocAsync(&held, mib, nullptr) == hipSuccess);
  REQUIRE(hipMallocAsync(&idle, mib, nullptr) == hipSuccess);
  REQUIRE(hipFreeAsync(idle, nullptr) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(hipFree(held) == hipErrorInvalidValue);
}

TIDY_CASE("hipDeviceReset: frees memory that a graph left, which can be launched again") {
  void* left = nullptr;
  std::optional<recorded_graph> graph;
  {
    const stream recorder;
    begin_capture(recorder.get());
    REQUIRE(hipMallocAsync(&left, mib, recorder.get()) == hipSuccess);
    graph.emplace(end_capture(recorder.get()));
  }
  const instance exec{graph->get()};
  REQUIRE(exec.launch(nullptr) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(hipFree(left) == hipErrorInvalidValue);
  CHECK(exec.launch(nullptr) == hipSuccess);
  CHECK(hipFree(left) == hipSuccess);
}

TIDY_CASE("hipDeviceReset: destroys streams and events of the device") {
  const hipStream_t made = create_stream();
  hipEvent_t marked = nullptr;
  REQUIRE(hipEventCreate(&marked) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  CHECK(hipStreamDestroy(made) == hipErrorInvalidHandle);
  CHECK(hipEventDestroy(marked) == hipErrorInvalidHandle);
}

TIDY_CASE("hipDeviceReset: the null stream and the thread's own go on") {
  REQUIRE(hipStreamSynchronize(hipStreamPerThread) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  const allocation memory{mib};
  CHECK(hipMemsetAsync(memory.at(), 1, mib, nullptr) == hipSuccess);
  CHECK(hipMemsetAsync(memory.at(), 1, mib, hipStreamPerThread) == hipSuccess);
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

TIDY_CASE("hipDeviceReset: destroys pools, and the default one is current again") {
  const hipMemPool_t made = new_pool();
  REQUIRE(hipDeviceSetMemPool(0, made) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  CHECK(hipMemPoolDestroy(made) == hipErrorInvalidValue);
  hipMemPool_t current = nullptr;
  CHECK(hipDeviceGetMemPool(&current, 0) == hipSuccess);
  CHECK(current == default_pool());
}

TIDY_CASE("hipDeviceReset: the default pool is as it was at first") {
  std::uint64_t keep = mib;
  int off = 0;
  const hipMemAccessDesc peer = access_of(1);
  REQUIRE(hipMemPoolSetAttribute(default_pool(), hipMemPoolAttrReleaseThreshold, &keep) ==
          hipSuccess);
  REQUIRE(hipMemPoolSetAttribute(default_pool(), hipMemPoolReuseAllowOpportunistic, &off) ==
          hipSuccess);
  REQUIRE(hipMemPoolSetAccess(default_pool(), &peer, 1) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  std::uint64_t high = 99;
  hipMemAccessFlags access = hipMemAccessFlagsProtReadWrite;
  hipMemLocation other{hipMemLocationTypeDevice, 1};
  CHECK(hipMemPoolGetAttribute(default_pool(), hipMemPoolAttrReleaseThreshold, &keep) ==
        hipSuccess);
  CHECK(keep == 0);
  CHECK(hipMemPoolGetAttribute(default_pool(), hipMemPoolReuseAllowOpportunistic, &off) ==
        hipSuccess);
  CHECK(off == 1);
  CHECK(hipMemPoolGetAttribute(default_pool(), hipMemPoolAttrUsedMemHigh, &high) == hipSuccess);
  CHECK(high == 0);
  CHECK(hipMemPoolGetAccess(&access, default_pool(), &other) == hipSuccess);
  CHECK(access == hipMemAccessFlagsProtNone);
}

TIDY_CASE("hipDeviceReset: takes the schedule back") {
  REQUIRE(hipSetDeviceFlags(hipDeviceScheduleSpin) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  unsigned flags = 99;
  CHECK(hipGetDeviceFlags(&flags) == hipSuccess);
  CHECK(flags == hipDeviceScheduleAuto);
}

TIDY_CASE("hipDeviceReset: leaves other devices alone") {
  const allocation memory{mib};
  const stream work;
  const pool source;
  std::byte* const block = source.allocate(mib, work.get());
  REQUIRE(hipSetDevice(1) == hipSuccess);
  REQUIRE(hipSetDeviceFlags(hipDeviceScheduleSpin) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  REQUIRE(hipSetDevice(0) == hipSuccess);
  CHECK(hipMemsetAsync(memory.at(), 1, mib, work.get()) == hipSuccess);
  CHECK(hipMemsetAsync(block, 1, mib, work.get()) == hipSuccess);
  free_in(block, work.get());
  CHECK(work.wait() == hipSuccess);
}

TIDY_CASE("hipDeviceReset: leaves chunks, what is mapped, and memory of the host") {
  const mapped chunk{granule};
  const pinned host{mib};
  CHECK(hipDeviceReset() == hipSuccess);
  CHECK(hipMemset(chunk.at(), 1, granule) == hipSuccess);
  CHECK(hipMemset(host.at(), 1, mib) == hipSuccess);
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

TIDY_CASE("hipDeviceReset: waits for work of the device and tells its first error once") {
  {
    mapped chunk{granule};
    // Not a blocking stream: some releases wait for the null stream when they unmap.
    hipStream_t work = nullptr;
    REQUIRE(hipStreamCreateWithFlags(&work, hipStreamNonBlocking) == hipSuccess);
    {
      const unordered_on_purpose taken_away;
      const held_streams held;
      REQUIRE(hipMemsetAsync(chunk.at(), 1, granule, work) == hipSuccess);
      chunk.unmap();
    }
    CHECK(hipDeviceReset() == hipErrorIllegalAddress);
  }
  CHECK(hipDeviceReset() == hipSuccess);
}

TIDY_CASE("hipDeviceReset: waits for another device's use of the memory") {
  void* const memory = allocate();
  const pinned target{mib};
  const stream other{hipStreamNonBlocking, 1};
  REQUIRE(fill_and_wait(memory, 7, mib) == hipSuccess);
  {
    const held_streams held;
    REQUIRE(hipMemcpyAsync(target.at(), memory, mib, hipMemcpyDeviceToHost, other.get()) ==
            hipSuccess);
  }
  CHECK(hipDeviceReset() == hipSuccess);
  CHECK(other.wait() == hipSuccess);
  CHECK(equal(target.at(), bytes_of(mib, 7)));
}

TIDY_CASE("hipDeviceReset: in a host function is refused and changes nothing") {
  const allocation memory{mib};
  hipError_t given = hipSuccess;
  const auto reset = [](void* result) { *static_cast<hipError_t*>(result) = hipDeviceReset(); };
  REQUIRE(hipLaunchHostFunc(nullptr, reset, &given) == hipSuccess);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(given == hipErrorIllegalState);
}
