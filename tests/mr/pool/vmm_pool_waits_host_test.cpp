// SPDX-License-Identifier: MIT
#include <hipvmm/provider/host_control.h>
#include <hipvmm/capability/capability.hpp>
#include "mr/mr_test.hpp"
#include "region/device_work.hpp"
#include "runtime/runtime_rules.hpp"
#include "support/host/foreign_stream.hpp"
#include "support/host/host_test.hpp"

// Calls that wait for the GPU, calls that do not, and the work that they wait for.
TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::mr {

using test::at_most;
using test::first_device;

namespace {

using namespace std::chrono_literals;

constexpr device_ref stranger{2};  // nothing reaches it

/// Whether `work` ends by itself: its calls must wait for nothing.
template <typename Work>
bool ends(Work work) {
  return std::async(std::launch::async, work).wait_for(20s) == std::future_status::ready;
}

}  // namespace

TEST_CASE("vmm_pool_resource: a request that waits for the GPU holds nobody else up") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);  // the end of a stream waits there by itself
  vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  pool.set_reuse({false, false, false});
  test::blocked_stream used{first_device};
  const stream waits{first_device};
  std::optional<stream> idle{first_device};
  pool.deallocate(*idle, pool.allocate(*idle, 4096), 4096);
  void* const own = pool.allocate(stream_ref::per_thread_default(), 4096);
  pool.deallocate(used, pool.allocate(used, 6 * MiB), 6 * MiB);
  std::future<void*> served =
      std::async(std::launch::async, [&] { return pool.allocate(waits, 6 * MiB); });
  CHECK_FALSE(test::happens([&] { return served.wait_for(0s) == std::future_status::ready; }));
  // A deallocation of a per-thread default stream belongs to this thread.
  pool.deallocate(stream_ref::per_thread_default(), own, 4096);
  CHECK(ends([&] { static_cast<void>(pool.statistics()); }));
  CHECK(ends([&] { idle.reset(); }));
  CHECK(ends([&] { pool.forget_stream(waits); }));
  CHECK(ends([&] { static_cast<void>(pool.access(first_device)); }));
  CHECK(ends([&] { static_cast<void>(pool.trim_to(0)); }));
  CHECK(served.wait_for(0s) == std::future_status::timeout);
  used.release();
  pool.deallocate(waits, served.get(), 6 * MiB);
}

TEST_CASE("vmm_pool_resource: a request that moves idle chunks waits for no other stream's work") {
  if (capability_of(first_device).needs(quirk::no_aliases)) return;
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  void* parts[8];
  for (void*& each : parts) each = pool.allocate(used, 8 * MiB);
  for (std::size_t i = 0; i < 8; i += 2) pool.deallocate(used, parts[i], 8 * MiB);
  used.synchronize();
  test::blocked_stream elsewhere{first_device};
  std::future<void*> served =
      std::async(std::launch::async, [&] { return pool.allocate(used, 32 * MiB); });
  CHECK(served.wait_for(20s) == std::future_status::ready);
  CHECK_FALSE(elsewhere.is_done());
  elsewhere.release();
  pool.deallocate(used, served.get(), 32 * MiB);
  CHECK(pool.statistics().chunks_moved > 0);
  for (std::size_t i = 1; i < 8; i += 2) pool.deallocate(used, parts[i], 8 * MiB);
}

TEST_CASE("vmm_pool_resource: the device holds what the pool says, however memory comes back") {
  drain_retired_memory();
  const std::size_t before = hipvmm_host_device_bytes(0);
  vmm_pool_resource pool{first_device, at_most(256 * MiB)};
  const auto held = [before] { return hipvmm_host_device_bytes(0) - before; };
  const stream used{first_device};
  const auto use = [&](std::size_t bytes) {
    void* const one = pool.allocate(used, bytes);
    fill_async(used, one, 1, 4096);
    pool.deallocate(used, one, bytes);
    used.synchronize();
  };
  SUBCASE("all of it is idle at each trim") {
    for (int i = 0; i < 8; ++i) {
      use(128 * MiB);
      CHECK(pool.trim_to(0) == 128 * MiB);
      CHECK(held() == 0);
      CHECK(pool.statistics().reserved_current == 0);
    }
  }
  SUBCASE("some is in use") {
    void* const kept = pool.allocate(used, 4 * MiB);
    for (int i = 0; i < 8; ++i) {
      use(128 * MiB);
      pool.trim_to(0);
      CHECK(held() == pool.statistics().reserved_current);
      CHECK(held() <= 256 * MiB);
    }
    pool.deallocate(used, kept, 4 * MiB);
  }
  SUBCASE("some is to stay") {
    for (int i = 0; i < 8; ++i) {
      use(128 * MiB);
      pool.trim_to(32 * MiB);
      CHECK(held() == pool.statistics().reserved_current);
      CHECK(held() >= 32 * MiB);
      CHECK(held() <= 128 * MiB);
    }
  }
}

TEST_CASE("vmm_pool_resource: what a stream of a device without access frees is held while used") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream other{first_device};
  const scoped_device elsewhere{stranger};
  test::blocked_stream far{stranger};
  void* const one = pool.allocate(other, 8 * MiB);
  other.synchronize();
  // Its copies go through the host, without a right to the memory.
  pool.deallocate(far, one, 8 * MiB);
  pool.set_reuse({true, true, false});
  void* const two = pool.allocate(other, 8 * MiB);
  CHECK(two != one);
  CHECK_FALSE(far.is_done());
  SUBCASE("until it has passed") {
    far.release();
    pool.deallocate(other, two, 8 * MiB);
    void* const all = pool.allocate(other, 64 * MiB);
    CHECK(far.is_done());
    pool.deallocate(other, all, 64 * MiB);
  }
  SUBCASE("and no trim takes it") {
    CHECK(pool.trim_to(0) == 0);
    pool.deallocate(other, two, 8 * MiB);
  }
}

TEST_CASE("vmm_pool_resource: its end waits for devices without access that freed memory") {
  auto pool = std::make_unique<vmm_pool_resource>(first_device, at_most(64 * MiB));
  const stream other{first_device};
  void* const one = pool->allocate(other, 8 * MiB);
  other.synchronize();
  test::blocked_stream far{stranger};
  pool->deallocate(far, one, 8 * MiB);
  std::future<void> ended = std::async(std::launch::async, [&] { pool.reset(); });
  CHECK_FALSE(test::happens([&] { return ended.wait_for(0s) == std::future_status::ready; }));
  far.release();
  ended.get();
}

TEST_CASE("vmm_pool_resource: its end waits for a program's stream of a device without access") {
  auto pool = std::make_unique<vmm_pool_resource>(first_device, at_most(64 * MiB));
  const stream other{first_device};
  void* const one = pool->allocate(other, 8 * MiB);
  other.synchronize();
  hip_resource beside{stranger};
  void* const its_own = beside.allocate_sync(1 * MiB);
  const scoped_device elsewhere{stranger};
  const test::foreign_stream far;
  test::held_streams held;
  fill_async(far, its_own, 1, 1 * MiB);
  pool->deallocate(far, one, 8 * MiB);
  std::future<void> ended = std::async(std::launch::async, [&] { pool.reset(); });
  CHECK_FALSE(test::happens([&] { return ended.wait_for(0s) == std::future_status::ready; }));
  held.release();
  ended.get();
  beside.deallocate_sync(its_own, 1 * MiB);
}

TEST_CASE("vmm_pool_resource: a program's stream is waited for alone beside one that runs on") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  pool.set_reuse({true, true, false});
  const stream other{first_device};
  const test::foreign_stream user;
  test::blocked_stream busy{first_device};
  pool.deallocate(user, pool.allocate(user, 8 * MiB), 8 * MiB);
  // Asks for the first time, which is answered for all streams if the stream may be gone.
  void* const asking = pool.allocate(other, 16 * MiB);
  void* const one = pool.allocate(user, 8 * MiB);
  pool.deallocate(user, one, 8 * MiB);
  REQUIRE(hipStreamSynchronize(user.get()) == hipSuccess);
  void* const two = pool.allocate(other, 8 * MiB);
  CHECK(two == one);
  pool.deallocate(other, two, 8 * MiB);
  pool.deallocate(other, asking, 16 * MiB);
}

TEST_CASE("vmm_pool_resource: a program's stream that is forgotten is waited for alone") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream other{first_device};
  test::foreign_stream user;
  const test::blocked_stream busy{first_device};
  void* const one = pool.allocate(user, 8 * MiB);
  pool.deallocate(user, one, 8 * MiB);
  pool.forget_stream(user);
  REQUIRE(hipStreamSynchronize(user.get()) == hipSuccess);
  user.end();
  void* const two = pool.allocate(other, 8 * MiB);
  CHECK(two == one);
  pool.deallocate(other, two, 8 * MiB);
}

TEST_CASE("vmm_pool_resource: the default stream is that of its device, whichever is current") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream_ref null = stream_ref::legacy_default();
  std::promise<void> gate;
  const auto wait = [](void* of) { static_cast<std::promise<void>*>(of)->get_future().wait(); };
  void* const one = pool.allocate(null, 8 * MiB);
  REQUIRE(hipLaunchHostFunc(nullptr, wait, &gate) == hipSuccess);
  pool.deallocate(null, one, 8 * MiB);
  {
    const scoped_device elsewhere{device_ref{1}};
    CHECK(pool.trim_to(0) == 0);
  }
  gate.set_value();
  null.synchronize();
  CHECK(pool.trim_to(0) == 8 * MiB);
}

HIPVMM_CHILD("a pool needs memory without a stream beside a capture") {
  vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  const stream captured{first_device};
  const stream other{first_device};
  void* const one = pool.allocate_sync(8 * MiB);
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  pool.deallocate_sync(one, 8 * MiB);
  for (const stream_ref each : {other.ref(), stream_ref::legacy_default()}) {
    // If HIP waits for no device beside a capture, there is none.
    try {
      pool.deallocate(each, pool.allocate(each, 8 * MiB), 8 * MiB);
    } catch (const out_of_memory&) {
    }
  }
  static_cast<void>(test::end_capture_if_kept(captured.get()));
  pool.deallocate(other, pool.allocate(other, 8 * MiB), 8 * MiB);
}

TEST_CASE("vmm_pool_resource: memory without a stream comes back beside a capture, or behind it") {
  for (const std::string assumed : {"assume:free_waits=yes", "assume:free_waits=no"}) {
    CAPTURE(assumed);
    test::check_child("a pool needs memory without a stream beside a capture",
                      {"HIPVMM_CAPABILITY=" + assumed});
  }
}

TEST_CASE("vmm_pool_resource: a grant that waits lets other requests go on" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device};
  test::blocked_stream user{first_device};
  const stream other{first_device};
  void* const one = pool.allocate(user, 4 * MiB);
  fill_async(user, one, 1, 4 * MiB);
  const test::calls_of begun{test::device_waiting_functions};
  std::atomic<bool> has_returned{false};
  std::thread granting{[&] {
    pool.grant(device_ref{1});
    has_returned = true;
  }};
  while (begun.count() == 0 && !has_returned) std::this_thread::yield();
  CHECK(has_returned == !detail::rules_of_runtime().wait_before_grant);
  // It takes new memory, under the lock.
  void* const two = pool.allocate(other, 16 * MiB);
  pool.deallocate(other, two, 16 * MiB);
  user.release();
  granting.join();
  pool.deallocate(user, one, 4 * MiB);
}

}  // namespace hipvmm::mr

TEST_SUITE_END();
