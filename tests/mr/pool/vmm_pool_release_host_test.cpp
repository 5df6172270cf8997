// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <filesystem>

#include <hipvmm/capability/capability.hpp>
#include "core/background_task.hpp"
#include "mr/mr_test.hpp"
#include "support/held_worker.hpp"
#include "support/host/host_provider.hpp"
#include "support/process/forked_child.hpp"

// Memory that goes back without a call, and its release at the end of the process.
TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::mr {
namespace {

using test::first_device;

pool_options keeping(std::size_t bytes) {
  return pool_options{.maximum_bytes = 256 * MiB, .release_threshold = bytes};
}

std::atomic<bool> exiting{false};

void wait_for_exit(void*) {
  while (!exiting) std::this_thread::yield();
}

/// Leaves the worker with memory that work in flight uses, which goes on until the process exits.
void give_back_what_is_in_use(vmm_pool_resource& pool) {
  // Never ends: ~stream may wait for its work, which waits for the exit.
  static const auto& used = *new stream{first_device};
  void* const one = pool.allocate(used, 32 * MiB);
  REQUIRE(hipLaunchHostFunc(used.get(), wait_for_exit, nullptr) == hipSuccess);
  fill_async(used, one, 1, 32 * MiB);
  pool.deallocate(used, one, 32 * MiB);
  CHECK(pool.statistics().reserved_current == 32 * MiB);
  // Runs before the library's own, which was registered when the worker was first asked.
  REQUIRE(std::atexit([] { exiting = true; }) == 0);
}

}  // namespace

TEST_CASE("vmm_pool_resource: a deallocation beyond the threshold makes no HIP call") {
  vmm_pool_resource pool{first_device, keeping(8 * MiB)};
  const stream used{first_device};
  void* blocks[4];
  for (void*& each : blocks) each = pool.allocate(used, 8 * MiB);
  void* const small = pool.allocate(used, 1000);
  const std::size_t reserved = pool.statistics().reserved_current;
  test::held_worker held;
  drain_retired_memory();
  const test::call_counter calls{nullptr};
  for (void* const each : blocks) pool.deallocate(used, each, 8 * MiB);
  pool.deallocate(used, small, 1000);
  CHECK(calls.count() == 0);
  CHECK(pool.statistics().reserved_current == reserved);
  held.release();
  used.synchronize();
  hipvmm::detail::wait_for_background_tasks();
  CHECK(pool.statistics().reserved_current <= 8 * MiB);
}

TEST_CASE("vmm_pool_resource: a trim gets the blocks that another thread takes out of caches") {
  vmm_pool_resource pool{first_device, keeping(0)};
  const stream used{first_device};
  const auto cache_small_blocks = [&] {
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (std::size_t bytes = 256; bytes <= 4096; bytes += 256)
      for (int i = 0; i < 64; ++i) blocks.emplace_back(pool.allocate(used, bytes), bytes);
    for (const auto& [address, bytes] : blocks) pool.deallocate(used, address, bytes);
  };
  for (int round = 0; round < 60; ++round) {
    test::held_worker held;
    cache_small_blocks();
    held.release();
    // It frees what caches have, as the worker does.
    used.synchronize();
    hipvmm::detail::wait_for_background_tasks();
    REQUIRE(pool.statistics().reserved_current == 0);
  }
}

TEST_CASE("vmm_pool_resource: memory beyond the threshold is released after its last use") {
  vmm_pool_resource pool{first_device, keeping(0)};
  const stream other{first_device};
  test::blocked_stream used{first_device};
  void* const one = pool.allocate(used, 32 * MiB);
  fill_async(used, one, 1, 32 * MiB);
  pool.deallocate(used, one, 32 * MiB);
  pool.set_reuse({false, false, false});
  // Nobody is held up meanwhile.
  void* const two = pool.allocate(other, 4 * MiB);
  CHECK(pool.statistics().reserved_current == 36 * MiB);
  used.release();
  hipvmm::detail::wait_for_background_tasks();
  CHECK(pool.statistics().reserved_current == (test::returns_chunks() ? 4 * MiB : 36 * MiB));
  pool.deallocate(other, two, 4 * MiB);
  hipvmm::detail::wait_for_background_tasks();
  CHECK(pool.statistics().reserved_current == 0);
}

TEST_CASE("vmm_pool_resource: it may be destroyed while the worker trims it") {
  drain_retired_memory();
  const test::error_recorder reported;
  const hipvmm_host_counters before = test::live_objects();
  for (int i = 0; i < 20; ++i) {
    const stream used{first_device};
    vmm_pool_resource pool{first_device, keeping(0)};
    void* const one = pool.allocate(used, 32 * MiB);
    fill_async(used, one, 1, 32 * MiB);
    pool.deallocate(used, one, 32 * MiB);
    if (i % 2 == 0) std::this_thread::yield();
  }
  drain_retired_memory();
  CHECK(reported.count() == 0);
  CHECK(test::live_objects().mappings == before.mappings);
  CHECK(test::live_objects().reservations == before.reservations);
}

TEST_CASE("vmm_pool_resource: its end in a child of fork() waits for nothing and calls no HIP") {
  const stream used{first_device};
  std::optional<vmm_pool_resource> pool;
  pool.emplace(first_device, keeping(0));
  // The worker is asked for, and busy.
  const test::held_worker held;
  pool->deallocate(used, pool->allocate(used, 32 * MiB), 32 * MiB);
  CHECK(test::succeeds_in_forked_child([&] {
    const test::call_counter calls{nullptr};
    pool.reset();
    return calls.count() == 0;
  }));
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: one without a threshold starts no thread", {}) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, {});
  };
  vmm_pool_resource pool{first_device};
  const stream used{first_device};
  pool.deallocate(used, pool.allocate(used, 32 * MiB), 32 * MiB);
  const auto before = threads();
  for (int i = 0; i < 10; ++i) pool.deallocate(used, pool.allocate(used, 64 * MiB), 64 * MiB);
  pool.trim_to(0);
  // Threads of HIP end by themselves.
  CHECK(test::comes_true([&] { return threads() == before; }));
  pool.deallocate(used, pool.allocate(used, 32 * MiB), 32 * MiB);
  pool.set_release_threshold(0);
  CHECK(threads() > before);  // ThreadSanitizer adds one of its own
}

HIPVMM_CHILD("a pool of static storage ends after main") {
  static vmm_pool_resource pool{first_device, keeping(0)};
  give_back_what_is_in_use(pool);
}

HIPVMM_CHILD("a pool never ends") {
  static auto& pool = *new vmm_pool_resource{first_device, keeping(0)};
  give_back_what_is_in_use(pool);
}

HIPVMM_CHILD("the process ends with a pool in use") {
  vmm_pool_resource pool{first_device, keeping(0)};
  std::thread{[&pool] {
    give_back_what_is_in_use(pool);
    std::exit(3);
  }}.join();
}

HIPVMM_CHILD("an error handler ends the process in the worker") {
  set_error_handler(test::end_process);
  auto& pool = *new vmm_pool_resource{first_device, keeping(0)};
  void* const one = pool.allocate_sync(32 * MiB);
  const test::planned_fault fault{"hipMemRelease", 1, hipErrorUnknown};
  pool.deallocate_sync(one, 32 * MiB);
  for (;;) ::pause();
}

TEST_CASE("vmm_pool_resource: the process may end while the worker waits for work in flight") {
  for (const char* const name : {"a pool of static storage ends after main", "a pool never ends"}) {
    test::check_child(name);
  }
  test::check_child_ends(3, "the process ends with a pool in use");
}

TEST_CASE("vmm_pool_resource: an error handler may end the process in the worker") {
  test::check_child_ends(5, "an error handler ends the process in the worker");
}

TEST_CASE("vmm_pool_resource: a trim may begin while another thread brings new streams") {
  vmm_pool_resource pool{first_device, keeping(0)};
  std::atomic<int> streams_there = 0;
  // Nothing but the pool puts this thread's trims behind the other one's calls.
  std::thread trimming{[&] {
    for (int seen = 0; seen < 40; seen = streams_there.load(std::memory_order_relaxed)) {
      while (streams_there.load(std::memory_order_relaxed) == seen) std::this_thread::yield();
      static_cast<void>(pool.trim_to(0));
    }
  }};
  // More than the books have room for at first.
  std::vector<std::unique_ptr<stream>> streams;
  for (int i = 0; i < 40; ++i) {
    const stream& used = *streams.emplace_back(std::make_unique<stream>(first_device));
    pool.deallocate(used, pool.allocate(used, 1000), 1000);
    streams_there.fetch_add(1, std::memory_order_relaxed);
  }
  trimming.join();
  // The pool's thread may be about to free the blocks that it has taken out of caches.
  CHECK(test::comes_true([&] { return pool.statistics().used_current == 0; }));
}

namespace {

/// Unmaps of a trim of 32 neighbours, which one call undoes on this profile.
std::uint64_t unmaps_of_trim() {
  pool_options options = keeping(256 * MiB);
  options.largest_chunk = 2 * MiB;
  vmm_pool_resource pool{first_device, options};
  const stream used{first_device};
  pool.deallocate(used, pool.allocate(used, 64 * MiB), 64 * MiB);
  used.synchronize();
  const test::call_counter unmaps{"hipMemUnmap"};
  CHECK(pool.trim_to(0) == 64 * MiB);
  CHECK(pool.statistics().reserved_current == 0);
  return unmaps.count();
}

HIPVMM_TEST_CASE_IN(
    "vmm_pool_resource: a trim of four chunks at a time makes a call for neighbours",
    {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_CAPABILITY=assume:cost_unmap=1"}) {
  const std::uint64_t calls = unmaps_of_trim();
  CHECK(calls >= 8);
  CHECK(calls <= 10);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: if unmaps are dear, a trim takes 64 neighbours by one call",
                    {"HIPVMM_HOST_PROFILE=rocm-7.14",
                     "HIPVMM_CAPABILITY=assume:cost_unmap=1000000"}) {
  CHECK(unmaps_of_trim() <= 2);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: a device that unmaps each mapping is trimmed one by one",
                    {"HIPVMM_HOST_PROFILE=rocm-7.14",
                     "HIPVMM_CAPABILITY=assume:cost_unmap=1000000,unmaps_many=no"}) {
  CHECK(unmaps_of_trim() >= 32);
}

HIPVMM_TEST_CASE_IN(
    "vmm_pool_resource: a trim whose run of unmaps HIP refuses returns all the same",
    {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_CAPABILITY=assume:cost_unmap=1000000"}) {
  static_cast<void>(capability_of(first_device));
  for (const hipError_t error : {hipErrorInvalidValue, hipErrorUnknown}) {
    drain_retired_memory();
    const std::size_t before = first_device.free_memory();
    {
      pool_options options = keeping(256 * MiB);
      options.largest_chunk = 2 * MiB;
      vmm_pool_resource pool{first_device, options};
      const stream used{first_device};
      pool.deallocate(used, pool.allocate(used, 64 * MiB), 64 * MiB);
      used.synchronize();
      const test::error_recorder told;
      hipvmm_host_fail_call("hipMemUnmap", 1, error);
      CHECK(pool.trim_to(0) == 64 * MiB);
      CHECK(pool.statistics().reserved_current == 0);
      // InvalidValue: HIP does not take them together, and each was unmapped alone.
      CHECK(told.count() == (error == hipErrorInvalidValue ? 0 : 1));
    }
    drain_retired_memory();
    CHECK(first_device.free_memory() == before);
  }
}

}  // namespace
}  // namespace hipvmm::mr

TEST_SUITE_END();
