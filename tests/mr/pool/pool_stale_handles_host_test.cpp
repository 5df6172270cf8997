// SPDX-License-Identifier: MIT
// A pool's entries for streams and events must not outlive them: their handles may name others
// then. Each case has memory with work in flight, which another stream must not get without a wait.
#include "core/background_task.hpp"
#include "mr/mr_test.hpp"
#include "support/device_memory.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/foreign_stream.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t block_size = 8 * MiB;

/// Memory that `user` freed while its work on it waits.
struct busy_memory {
  mr::vmm_pool_resource pool{device_ref{0}, {.maximum_bytes = 2 * block_size}};
  std::optional<stream> user{device_ref{0}};
  void* memory = pool.allocate(*user, block_size);
  held_streams held;

  busy_memory() {
    REQUIRE(hipMemsetAsync(memory, 1, block_size, user->get()) == hipSuccess);
    pool.deallocate(*user, memory, block_size);
  }
  /// Whether `next` gets that very memory although its work would not wait.
  [[nodiscard]] bool is_given_without_order(stream_ref next) {
    void* const got = pool.allocate(next, block_size);
    const bool waits = !next.is_done();
    pool.deallocate(next, got, block_size);
    held.release();
    return got == memory && !waits;
  }
};

TEST_CASE("vmm_pool_resource: an event recorded by others leaves no order of an earlier record") {
  busy_memory busy;
  const stream other{device_ref{0}};
  const stream next{device_ref{0}};
  event mark{device_ref{0}};
  mark.record(*busy.user);
  REQUIRE(hipEventRecord(mark.get(), other.get()) == hipSuccess);
  next.wait(mark);
  CHECK_FALSE(busy.is_given_without_order(next));
}

TEST_CASE("vmm_pool_resource: an event that was released leaves its order to no later one") {
  busy_memory busy;
  const stream next{device_ref{0}};
  event mark{device_ref{0}};
  mark.record(*busy.user);
  REQUIRE(hipEventDestroy(mark.release()) == hipSuccess);
  const event later{device_ref{0}};
  next.wait(later);
  CHECK_FALSE(busy.is_given_without_order(next));
}

TEST_CASE("vmm_pool_resource: a default stream of another device is none of its own") {
  for (const stream_ref name : {stream_ref::legacy_default(),
                                stream_ref{reinterpret_cast<ihipStream_t*>(std::uintptr_t{1})}}) {
    CAPTURE(name.get());
    mr::vmm_pool_resource pool{device_ref{0}};
    const stream next{device_ref{0}};
    void* const memory = pool.allocate(name, block_size);
    held_streams held;
    REQUIRE(hipMemsetAsync(memory, 1, block_size, name.get()) == hipSuccess);
    pool.deallocate(name, memory, block_size);
    event mark{device_ref{1}};
    {
      const scoped_device other{device_ref{1}};
      mark.record(name);
    }
    next.wait(mark);
    void* const got = pool.allocate(next, block_size);
    CHECK((got != memory || !next.is_done()));
    pool.deallocate(next, got, block_size);
  }
}

TEST_CASE("vmm_pool_resource: a stream that ends without a fence leaves no memory to the next") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  for (const bool is_captured : {false, true}) {
    CAPTURE(is_captured);
    const error_recorder reported;
    busy_memory busy;
    if (is_captured) {
      REQUIRE(hipStreamBeginCapture(busy.user->get(), hipStreamCaptureModeRelaxed) == hipSuccess);
    } else {
      hipvmm_host_fail_call("hipEventCreateWithFlags", 1, hipErrorUnknown);
    }
    busy.user.reset();
    CHECK(reported.count() == 1);
    const stream next{device_ref{0}};
    CHECK_FALSE(busy.is_given_without_order(next));
    // When no other memory is left it comes back, by a wait for the device.
    const calls_of waits{waiting_functions};
    std::array<void*, 2> all{};
    for (void*& each : all) each = busy.pool.allocate(next, block_size);
    CHECK((all[0] == busy.memory || all[1] == busy.memory));
    CHECK(waits.count() > 0);
    for (void* const each : all) busy.pool.deallocate(next, each, block_size);
  }
}

TEST_CASE("vmm_pool_resource: a stream that ends without a fence leaks no memory" *
          needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  for (const bool by_threshold : {false, true}) {
    CAPTURE(by_threshold);
    const error_recorder reported;
    busy_memory busy;
    hipvmm_host_fail_call("hipEventCreateWithFlags", 1, hipErrorUnknown);
    busy.user.reset();
    CHECK(reported.count() == 1);
    // Its work goes on.
    CHECK(busy.pool.trim_to(0) == 0);
    busy.held.release();
    if (by_threshold) {
      busy.pool.set_release_threshold(0);
      detail::wait_for_background_tasks();
    } else {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
      CHECK(busy.pool.trim_to(0, deadline) == block_size);
    }
    CHECK(busy.pool.statistics().reserved_current == 0);
  }
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: on AMD no event of a forgotten stream is asked",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4"}) {
  mr::vmm_pool_resource pool{device_ref{0}, {.maximum_bytes = 2 * block_size}};
  foreign_stream user;
  void* const memory = pool.allocate(user, block_size);
  held_streams held;
  REQUIRE(hipMemsetAsync(memory, 1, block_size, user.get()) == hipSuccess);
  pool.deallocate(user, memory, block_size);
  pool.forget_stream(user);
  const calls_of uses{std::array{"hipEventQuery", "hipEventSynchronize", "hipStreamWaitEvent"}};
  const stream next{device_ref{0}};
  void* const other = pool.allocate(next, block_size);
  CHECK(other != memory);
  CHECK(uses.count() == 0);
  held.release();
  // By a wait for the devices.
  void* const again = pool.allocate(next, block_size);
  CHECK(again == memory);
  CHECK(uses.count() == 0);
  pool.deallocate(next, other, block_size);
  pool.deallocate(next, again, block_size);
}

/// Memory of device 0 in use by a stream of device 1, as the program may order it.
struct memory_of_peer {
  mr::vmm_pool_resource pool{device_ref{0}};
  stream own{device_ref{0}};
  void* memory = pool.allocate(own, block_size);
  pinned_memory result{MiB};

  memory_of_peer() { own.synchronize(); }
  /// Whether the memory stays while a stream of device 1 works.
  void check_kept(held_streams& held) {
    CHECK(pool.trim_to(0, std::chrono::steady_clock::now() + std::chrono::milliseconds{100}) == 0);
    held.release();
    CHECK(pool.trim_to(0, std::chrono::steady_clock::now() + std::chrono::seconds{10}) > 0);
  }
};

#ifndef __SANITIZE_THREAD__  // which replaces operator new itself
TEST_CASE("vmm_pool_resource: memory whose stream has no state waits for all devices" *
          needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(memory_kept);
  memory_of_peer subject;
  held_streams held;
  const stream user{device_ref{1}};
  REQUIRE(hipMemsetAsync(subject.result.get(), 1, MiB, user.get()) == hipSuccess);
  {
    const allocation_failure fault{1};
    subject.pool.deallocate(user, subject.memory, block_size);
    CHECK(fault.struck());
  }
  subject.check_kept(held);
}
#endif

TEST_CASE("vmm_pool_resource: the end of another device's stream without a fence loses no order" *
          needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(memory_kept);
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  const error_recorder reported;
  memory_of_peer subject;
  held_streams held;
  {
    const stream user{device_ref{1}};
    REQUIRE(hipMemsetAsync(subject.result.get(), 1, MiB, user.get()) == hipSuccess);
    subject.pool.deallocate(user, subject.memory, block_size);
    hipvmm_host_fail_call("hipEventCreateWithFlags", 1, hipErrorUnknown);
  }
  CHECK(reported.count() == 1);
  subject.check_kept(held);
}

}  // namespace
}  // namespace hipvmm::test
