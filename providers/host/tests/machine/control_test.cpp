// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <string>
#include <thread>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

// Gives a worker that should stand still every chance to run.
void let_threads_run() {
  for (int i = 0; i < 200; ++i) std::thread{[] {}}.join();
}

}  // namespace

TIDY_CASE("control: counters follow every kind of object") {
  const hipvmm_host_counters before = live_objects();
  {
    const mapped mapping{granule};
    const memory chunk{granule, 0, hipMemHandleTypePosixFileDescriptor};
    const allocation device{64};
    const pinned host{64};
    const stream work;
    const event mark;
    const hipvmm_host_counters expected{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
    CHECK(live_objects() == expected);
  }
  CHECK(live_objects() == before);
}

TIDY_CASE("control: the peak is the most that was in use at one time since its reset") {
  hipvmm_host_reset_peak_device_bytes(0);
  hipvmm_host_reset_peak_device_bytes(1);
  {
    const memory first{2 * granule};
    const allocation second{granule};
  }
  const memory third{granule};
  CHECK(hipvmm_host_device_bytes(0) == granule);
  CHECK(hipvmm_host_peak_device_bytes(0) == 3 * granule);
  CHECK(hipvmm_host_peak_device_bytes(1) == 0);
  hipvmm_host_reset_peak_device_bytes(0);
  CHECK(hipvmm_host_peak_device_bytes(0) == granule);
}

TEST_CASE("control: a device that does not exist uses nothing") {
  hipvmm_host_reset_peak_device_bytes(3);
  CHECK(hipvmm_host_device_bytes(3) == 0);
  CHECK(hipvmm_host_device_bytes(-1) == 0);
  CHECK(hipvmm_host_peak_device_bytes(3) == 0);
}

TIDY_CASE("control: the planned call fails once and does nothing") {
  const planned_fault plan{"hipMalloc", 2, hipErrorOutOfMemory};
  void* first = nullptr;
  void* second = &first;
  CHECK(hipMalloc(&first, 64) == hipSuccess);
  CHECK_FALSE(plan.struck());
  CHECK(hipMalloc(&second, 64) == hipErrorOutOfMemory);
  CHECK(plan.struck());
  CHECK(second == &first);
  CHECK(hipGetLastError() == hipErrorOutOfMemory);
  CHECK(live_objects().allocations == 1);
  CHECK(hipMalloc(&second, 64) == hipSuccess);
  CHECK(hipFree(first) == hipSuccess);
  CHECK(hipFree(second) == hipSuccess);
}

TIDY_CASE("control: a plan for any function strikes whichever comes nth") {
  int count = 0;
  const planned_fault plan{nullptr, 3, hipErrorUnknown};
  CHECK(hipGetDeviceCount(&count) == hipSuccess);
  static_cast<void>(hipGetErrorName(hipSuccess));
  static_cast<void>(hipGetErrorString(hipSuccess));
  static_cast<void>(hipPeekAtLastError());
  static_cast<void>(hipGetLastError());
  CHECK(hipSetDevice(0) == hipSuccess);
  CHECK_FALSE(plan.struck());
  CHECK(hipDeviceSynchronize() == hipErrorUnknown);
  CHECK(plan.struck());
}

TEST_CASE("control: a plan can be taken back") {
  hipvmm_host_fail_call("hipSetDevice", 1, hipErrorUnknown);
  hipvmm_host_fail_call(nullptr, 0, 0);
  CHECK(hipSetDevice(0) == hipSuccess);
  CHECK(hipvmm_host_fault_struck() == 0);
}

TEST_CASE("control: calls are counted by name, failed ones too, and in all") {
  const call_counter frees{"hipFree"};
  const call_counter names{"hipGetErrorName"};
  const call_counter all{nullptr};
  int pageable = 0;
  CHECK(hipFree(nullptr) == hipSuccess);
  CHECK(hipFree(&pageable) == hipErrorInvalidValue);
  CHECK(std::string{hipGetErrorName(hipGetLastError())} == "hipErrorInvalidValue");
  CHECK(frees.count() == 2);
  CHECK(names.count() == 1);
  CHECK(all.count() == 4);
  CHECK(hipvmm_host_call_count("hipNoSuchFunction") == 0);
}

TEST_CASE("control: calls that name a stream that is gone are counted") {
  const std::uint64_t before = hipvmm_host_stale_stream_calls();
  hipStream_t gone = nullptr;
  REQUIRE(hipStreamCreate(&gone) == hipSuccess);
  CHECK(hipStreamQuery(gone) == hipSuccess);
  REQUIRE(hipStreamDestroy(gone) == hipSuccess);
  CHECK(hipvmm_host_stale_stream_calls() == before);
  CHECK(hipStreamQuery(gone) != hipSuccess);
  CHECK(hipStreamDestroy(gone) != hipSuccess);
  CHECK(hipStreamQuery(nullptr) == hipSuccess);
  CHECK(hipvmm_host_stale_stream_calls() == before + 2);
}

WORK_CASE("control: no stream starts an operation while streams are held, and holding nests") {
  const auto nothing = [](void*) {};
  REQUIRE(hipLaunchHostFunc(work.get(), nothing, nullptr) == hipSuccess);
  REQUIRE(work.wait() == hipSuccess);  // its worker runs now
  held_streams outer;
  held_streams inner;
  REQUIRE(hipLaunchHostFunc(work.get(), nothing, nullptr) == hipSuccess);
  let_threads_run();
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  inner.release();
  let_threads_run();
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  outer.release();
  CHECK(work.wait() == hipSuccess);
}

TIDY_CASE("control: releasing more often than holding changes nothing") {
  hipvmm_host_release_streams();
  const stream work;
  const held_streams held;
  REQUIRE(hipLaunchHostFunc(
              work.get(), [](void*) {}, nullptr) == hipSuccess);
  let_threads_run();
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
}
