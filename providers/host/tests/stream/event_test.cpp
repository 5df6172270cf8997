// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "core/hip_compat.hpp"
#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

void nothing(void*) {}

}  // namespace

TIDY_CASE("event: arguments outside the rules are refused") {
  const event timed;
  const event untimed{hipEventDisableTiming};
  const event unrecorded;
  const stream of_1{hipStreamNonBlocking, 1};
  REQUIRE(hipEventRecord(timed.get(), nullptr) == hipSuccess);
  REQUIRE(hipEventRecord(untimed.get(), nullptr) == hipSuccess);
  float milliseconds = 0;
  constexpr auto bad_handle = hipErrorInvalidHandle;
  check_refusals({
      {"create null", hipEventCreate(nullptr)},
      {"create with flags null", hipEventCreateWithFlags(nullptr, 0)},
      {"record in a stream of another device", hipEventRecord(timed.get(), of_1.get()), bad_handle},
      {"elapsed null", hipEventElapsedTime(nullptr, timed.get(), timed.get())},
      {"elapsed since no timing", hipEventElapsedTime(&milliseconds, untimed.get(), timed.get()),
       bad_handle},
      {"elapsed until no timing", hipEventElapsedTime(&milliseconds, timed.get(), untimed.get()),
       bad_handle},
      {"elapsed since never", hipEventElapsedTime(&milliseconds, unrecorded.get(), timed.get()),
       bad_handle},
      {"elapsed until never", hipEventElapsedTime(&milliseconds, timed.get(), unrecorded.get()),
       bad_handle},
  });
}

TIDY_CASE("event: how far a record is visible may be said in one way") {
  constexpr unsigned no_fence = hipvmm::hip_compat::event_disable_system_fence;
  const event without_fence{no_fence};
  const event untimed{no_fence | hipEventDisableTiming | hipEventBlockingSync};
  CHECK(hipEventRecord(without_fence.get(), nullptr) == hipSuccess);
  CHECK(hipEventSynchronize(without_fence.get()) == hipSuccess);
  hipEvent_t made = nullptr;
  check_refusals({
      {"and for the device", hipEventCreateWithFlags(&made, no_fence | hipEventReleaseToDevice)},
      {"and for the system", hipEventCreateWithFlags(&made, no_fence | hipEventReleaseToSystem)},
  });
}

TIDY_CASE("event: one that was never recorded is done and holds nobody back") {
  const event never;
  CHECK(hipEventQuery(never.get()) == hipSuccess);
  CHECK(hipEventSynchronize(never.get()) == hipSuccess);
  CHECK(hipStreamWaitEvent(nullptr, never.get(), 0) == hipSuccess);
  CHECK(hipStreamQuery(nullptr) == hipSuccess);
}

WORK_CASE("event: is done when the work before it is, not the work after it") {
  const event mark{hipEventDisableTiming};
  REQUIRE(hipEventRecord(mark.get(), work.get()) == hipSuccess);
  CHECK(hipEventQuery(mark.get()) == hipSuccess);
  const held_streams held;
  REQUIRE(hipLaunchHostFunc(work.get(), nothing, nullptr) == hipSuccess);
  CHECK(hipEventQuery(mark.get()) == hipSuccess);
  REQUIRE(hipEventRecord(mark.get(), work.get()) == hipSuccess);
  CHECK(hipEventQuery(mark.get()) == hipErrorNotReady);
}

TIDY_CASE("event: recording again replaces the earlier mark") {
  const stream held_back;
  const stream idle;
  const event mark{hipEventDisableTiming};
  const held_streams held;
  REQUIRE(hipLaunchHostFunc(held_back.get(), nothing, nullptr) == hipSuccess);
  REQUIRE(hipEventRecord(mark.get(), held_back.get()) == hipSuccess);
  CHECK(hipEventQuery(mark.get()) == hipErrorNotReady);
  REQUIRE(hipEventRecord(mark.get(), idle.get()) == hipSuccess);
  CHECK(hipEventQuery(mark.get()) == hipSuccess);
}

TIDY_CASE("event: a stream waits for the mark that was there when it was told to") {
  const stream first;
  const stream second;
  const event mark{hipEventDisableTiming};
  const mapped mapping{granule};
  {
    const held_streams held;
    REQUIRE(hipMemsetAsync(mapping.at(), 1, granule, first.get()) == hipSuccess);
    REQUIRE(hipEventRecord(mark.get(), first.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(second.get(), mark.get(), 0) == hipSuccess);
    REQUIRE(hipMemsetAsync(mapping.at(), 2, granule, second.get()) == hipSuccess);
    REQUIRE(hipEventRecord(mark.get(), second.get()) == hipSuccess);  // changes nothing above
  }
  CHECK(second.wait() == hipSuccess);
  CHECK(equal(mapping.at(), bytes_of(granule, 2)));
  CHECK(hipStreamQuery(first.get()) == hipSuccess);
}

TIDY_CASE("event: a stream of another device may wait for it") {
  const stream of_0;
  const stream of_1{hipStreamNonBlocking, 1};
  const event mark{hipEventDisableTiming};
  const mapped mapping{granule, {0, 1}};
  {
    const held_streams held;
    REQUIRE(hipMemsetAsync(mapping.at(), 1, granule, of_0.get()) == hipSuccess);
    REQUIRE(hipEventRecord(mark.get(), of_0.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(of_1.get(), mark.get(), 0) == hipSuccess);
    REQUIRE(hipMemsetAsync(mapping.at(), 2, granule, of_1.get()) == hipSuccess);
  }
  CHECK(of_1.wait() == hipSuccess);
  CHECK(equal(mapping.at(), bytes_of(granule, 2)));
}

TIDY_CASE("event: destroying it leaves those who wait for it waiting") {
  const stream first;
  const stream second;
  bool ran = false;
  {
    const held_streams held;
    const event mark{hipEventDisableTiming};
    REQUIRE(hipLaunchHostFunc(
                first.get(), [](void* flag) { *static_cast<bool*>(flag) = true; }, &ran) ==
            hipSuccess);
    REQUIRE(hipEventRecord(mark.get(), first.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(second.get(), mark.get(), 0) == hipSuccess);
  }
  CHECK(second.wait() == hipSuccess);
  CHECK(ran);
}

WORK_CASE("event: the time between two marks grows with the work between them") {
  const event start;
  const event middle;
  const event stop;
  const mapped mapping{8 * granule};
  REQUIRE(hipEventRecord(start.get(), work.get()) == hipSuccess);
  REQUIRE(hipMemsetAsync(mapping.at(), 1, 8 * granule, work.get()) == hipSuccess);
  REQUIRE(hipEventRecord(middle.get(), work.get()) == hipSuccess);
  REQUIRE(hipMemsetAsync(mapping.at(), 2, 8 * granule, work.get()) == hipSuccess);
  REQUIRE(hipEventRecord(stop.get(), work.get()) == hipSuccess);
  REQUIRE(hipEventSynchronize(stop.get()) == hipSuccess);
  float half = 0;
  float whole = 0;
  float back = 0;
  CHECK(hipEventElapsedTime(&half, start.get(), middle.get()) == hipSuccess);
  CHECK(hipEventElapsedTime(&whole, start.get(), stop.get()) == hipSuccess);
  CHECK(hipEventElapsedTime(&back, stop.get(), start.get()) == hipSuccess);
  CHECK(half > 0);
  CHECK(whole > half);
  CHECK(back == -whole);
}

WORK_CASE("event: the time until a mark that is not reached is not ready") {
  const event start;
  const event stop;
  REQUIRE(hipEventRecord(start.get(), work.get()) == hipSuccess);
  const held_streams held;
  REQUIRE(hipLaunchHostFunc(work.get(), nothing, nullptr) == hipSuccess);
  REQUIRE(hipEventRecord(stop.get(), work.get()) == hipSuccess);
  float milliseconds = 0;
  CHECK(hipEventElapsedTime(&milliseconds, start.get(), stop.get()) == hipErrorNotReady);
}
