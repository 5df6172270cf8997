// SPDX-License-Identifier: MIT
// Events while the pool has released its lock, or between two of its HIP calls.
#include "mr/mr_test.hpp"
#include "support/host/host_test.hpp"
#include "support/region/assumed_capability.hpp"
#include "support/rounds.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::mr {
namespace {

using test::at_most;
using test::first_device;

void make_wait(stream_ref waiter, stream_ref behind) {
  event reached{first_device};
  reached.record(behind);
  waiter.wait(reached);
}

}  // namespace

TEST_CASE("vmm_pool_resource: a refused growth is tried for the request alone, in one chunk") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  void* one = nullptr;
  {
    const char* const creates = test::on_fallback() ? "hipMalloc" : "hipMemCreate";
    const test::planned_fault fault{creates, 1, hipErrorOutOfMemory};
    one = pool.allocate(used, 1 * MiB);
    CHECK(fault.struck());
  }
  CHECK(pool.statistics().chunks_created == 1);
  void* const two = pool.allocate(used, 6 * MiB);
  fill_async(used, two, 1, 6 * MiB);
  used.synchronize();
  pool.deallocate(used, one, 1 * MiB);
  pool.deallocate(used, two, 6 * MiB);
}

TEST_CASE("vmm_pool_resource: requests that wait do not exceed the limit together" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, at_most(32 * MiB)};
  const stream used{first_device};
  const stream other{first_device};
  void* const left = pool.allocate(used, 8 * MiB);
  void* const kept = pool.allocate(used, 8 * MiB);
  test::blocked_stream before{first_device};
  make_wait(used, before);
  fill_async(used, left, 1, 8 * MiB);
  pool.deallocate(used, left, 8 * MiB);
  const auto ask = [&pool](stream_ref in) {
    try {
      pool.deallocate(in, pool.allocate(in, 16 * MiB), 16 * MiB);
    } catch (const out_of_memory&) {
    }
  };
  // Plans with free memory, for which a thread's default stream waits, and with new memory.
  test::watched_thread first{[&] { ask(stream_ref::per_thread_default()); }};
  CHECK(first.comes_to_wait());
  test::watched_thread second{[&] { ask(other); }};
  second.comes_to_wait();
  before.release();
  first.join();
  second.join();
  CHECK(pool.statistics().reserved_high <= 32 * MiB);
  pool.deallocate(used, kept, 8 * MiB);
}

TEST_CASE("vmm_pool_resource: memory on its way back to the device is waited for at the limit") {
  pool_options options = at_most(64 * MiB);
  options.release_threshold = 0;
  vmm_pool_resource pool{first_device, options};
  const stream used{first_device};
  for (int i = 0; i < 500; ++i) {
    void* one = nullptr;
    REQUIRE_NOTHROW(one = pool.allocate(used, 64 * MiB));
    pool.deallocate(used, one, 64 * MiB);
    // The library's thread begins to release it after a moment that is never the same.
    for (int yields = 0; yields < i % 50; ++yields) std::this_thread::yield();
  }
}

TEST_CASE("vmm_pool_resource: a thread's default stream keeps few events") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream_ref own = stream_ref::per_thread_default();
  const std::uint64_t before = test::live_objects().events;
  const test::held_streams held;
  for (int i = 0; i < 1000; ++i) {
    void* const one = pool.allocate(own, 1 * KiB);
    fill_async(own, one, 1, 1 * KiB);
    pool.deallocate(own, one, 1 * KiB);
  }
  CHECK(test::live_objects().events <= before + 64);
}

TEST_CASE(
    "vmm_pool_resource: a thread's default stream loses nothing where a fence cannot be asked") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream_ref own = stream_ref::per_thread_default();
  const stream other{first_device};
  // Of a size class, which is larger.
  constexpr std::size_t bytes = 4200;
  void* const one = pool.allocate(other, bytes);
  void* const two = pool.allocate(other, bytes);
  other.synchronize();
  const test::held_streams held;
  fill_async(own, one, 1, bytes);
  pool.deallocate(own, one, bytes);
  const test::error_recorder reported;
  const test::planned_fault fault{"hipEventQuery", 1, hipErrorUnknown};
  pool.deallocate(own, two, bytes);
  CHECK(fault.struck());
  CHECK(reported.count() == 0);
  CHECK(pool.statistics().used_current == 0);
}

TEST_CASE("vmm_pool_resource: a fence that falls into a capture is made anew") {
  for (const char* const moment : {"hipEventRecord", "hipStreamIsCapturing"}) {
    CAPTURE(moment);
    vmm_pool_resource pool{first_device, at_most(64 * MiB)};
    const stream captured{first_device};
    const stream other{first_device};
    void* const one = pool.allocate(captured, 8 * MiB);
    pool.deallocate(captured, one, 8 * MiB);
    drain_retired_memory();
    test::blocked_stream before{first_device};
    make_wait(captured, before);
    // The capture begins while the pool makes a fence.
    const std::uint64_t delayed = std::string{moment} == "hipEventRecord" ? 1 : 2;
    const std::string plan =
        std::string{moment} + " nth=" + std::to_string(delayed) + " delay=100ms";
    REQUIRE(hipvmm_host_set_faults(plan.c_str()) == nullptr);
    const test::call_counter begun{moment};
    std::thread beside{[&] {
      void* const two = pool.allocate(other, 16 * MiB);
      pool.deallocate(other, two, 16 * MiB);
    }};
    REQUIRE(test::comes_true([&] { return begun.count() == delayed; }));
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeThreadLocal) == hipSuccess);
    beside.join();
    hipvmm_host_set_faults(nullptr);
    CHECK(captured.ref().is_capturing());
    test::end_capture(captured.get());
    before.release();
    captured.synchronize();
    for (std::size_t bytes = 9 * MiB; bytes < 12 * MiB; bytes += 1 * MiB)
      pool.deallocate(other, pool.allocate(other, bytes), bytes);
    CHECK_NOTHROW(pool.trim_to(0));
  }
}

TEST_CASE("vmm_pool_resource: no request fails while others hold less than the limit leaves") {
  // Each thread has one block at most, with a stream, without one or in its default stream.
  constexpr std::size_t bytes = 8 * MiB;
  vmm_pool_resource pool{first_device, {.maximum_bytes = 4 * bytes}};
  std::atomic<int> refused{0};
  test::in_threads(4, [&](int i) {
    REQUIRE(hipSetDevice(0) == hipSuccess);
    const stream own{first_device};
    const stream_ref used = i == 3 ? stream_ref::per_thread_default() : own.ref();
    for (int round = 0; round < test::rounds(30000); ++round) {
      try {
        void* const one = i == 1 ? pool.allocate_sync(bytes) : pool.allocate(used, bytes);
        if (i != 1) fill_async(used, one, 1, std::size_t{1} << (round % 16));
        if (round % 8 == 0) used.synchronize();
        if (i == 1)
          pool.deallocate_sync(one, bytes);
        else
          pool.deallocate(used, one, bytes);
      } catch (const out_of_memory&) {
        ++refused;
      }
    }
    used.synchronize();
  });
  CHECK(refused == 0);
  CHECK(pool.statistics().used_current == 0);
}

TEST_CASE("vmm_pool_resource: a stream that is destroyed while its fence is made costs a wait") {
  for (const int code :
       {hipErrorInvalidHandle, hipErrorContextIsDestroyed, hipErrorInvalidValue, hipErrorUnknown}) {
    CAPTURE(code);
    vmm_pool_resource pool{first_device, {.maximum_bytes = 8 * MiB}};
    const stream first{first_device};
    const stream second{first_device};
    void* const one = pool.allocate(first, 8 * MiB);
    drain_retired_memory();
    test::held_streams held;
    fill_async(first, one, 1, 8 * MiB);
    pool.deallocate(first, one, 8 * MiB);
    // The second request asks of its own stream, then of the first before and behind the record.
    const test::planned_fault fault{"hipStreamIsCapturing", 3, code};
    if (code == hipErrorUnknown) {
      CHECK_THROWS_AS(pool.allocate(second, 8 * MiB), hip_error);
    } else {
      test::opened_by_wait opener{[&] { held.release(); }};
      void* two = nullptr;
      CHECK_NOTHROW(two = pool.allocate(second, 8 * MiB));
      CHECK(opener.was_waited_for());
      if (two != nullptr) {
        fill_async(second, two, 2, 8 * MiB);
        pool.deallocate(second, two, 8 * MiB);
      }
    }
    CHECK(fault.struck());
    held.release();
  }
}

TEST_CASE("vmm_pool_resource: what a thread's default stream leaves of a chunk serves others") {
  pool_options options = at_most(2 * MiB);
  options.reuse.allow_internal_dependencies = false;
  vmm_pool_resource pool{first_device, options};
  const stream_ref own = stream_ref::per_thread_default();
  const stream other{first_device};
  void* const one = pool.allocate(own, 1 * MiB);
  void* const two = pool.allocate(other, 1 * MiB);
  pool.deallocate(other, two, 1 * MiB);
  // All of it is free, half of it behind work of the default stream.
  pool.deallocate(own, one, 1 * MiB);
  void* const all = pool.allocate(other, 2 * MiB);
  CHECK(pool.statistics().reserved_high <= 2 * MiB);
  pool.deallocate(other, all, 2 * MiB);
}

TEST_CASE("vmm_pool_resource: a declared wait covers the other stream's own memory only") {
  vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  const stream third{first_device};
  const stream other{first_device};
  const stream waiter{first_device};
  void* const one = pool.allocate(third, 8 * MiB);
  // Raw, before `other` comes to wait for the third.
  hipEvent_t early = nullptr;
  REQUIRE(hipEventCreateWithFlags(&early, hipEventDisableTiming) == hipSuccess);
  REQUIRE(hipEventRecord(early, other.get()) == hipSuccess);
  test::held_streams held;
  fill_async(third, one, 1, 8 * MiB);
  pool.deallocate(third, one, 8 * MiB);
  event reached{first_device};
  reached.record(third);
  other.ref().wait(reached);
  REQUIRE(hipStreamWaitEvent(waiter.get(), early, 0) == hipSuccess);
  pool.note_stream_wait(waiter, other);
  // It is ordered by the pool.
  void* const two = pool.allocate(waiter, 8 * MiB);
  CHECK(pool.statistics().served[static_cast<std::size_t>(pool_source::internal_dependency)] == 1);
  held.release();
  waiter.synchronize();
  pool.deallocate(waiter, two, 8 * MiB);
  CHECK(hipEventDestroy(early) == hipSuccess);
}

}  // namespace hipvmm::mr
