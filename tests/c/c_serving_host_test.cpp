// SPDX-License-Identifier: MIT
// Slots and sleep while devices are busy or HIP fails, as the host provider can have it.
#include "c/c_interface.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/foreign_stream.hpp"
#include "support/host/host_test.hpp"
#include "support/is_ready.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("C slots: a null stream is that of the arena's device") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  const owned_slot_arena arena{result_of(hipvmm_slot_arena_create, other.ordinal(),
                                         "slots=2,bytes_per_slot=8MiB,block=2MiB,prefetch=0")};
  std::size_t slot = result_of(hipvmm_slot_arena_acquire, arena, nullptr);
  const std::size_t length = 10;
  require_ok(hipvmm_slot_arena_commit(arena, &slot, &length, 1, nullptr));
  CHECK(hipvmm_slot_arena_truncate(arena, slot, 5, nullptr) == HIPVMM_OK);
  CHECK(hipvmm_slot_arena_release(arena, slot, nullptr) == HIPVMM_OK);
}

TEST_CASE("C sleep: work in streams that suspend is not given is not waited for") {
  HIPVMM_SKIP_UNDER(unmap_waits);  // for the stream that is held
  const owned_buffer buffer = make_buffer("max=64MiB,sleep_tag=c_one_stream");
  blocked_stream given{first_device};
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, stream_ref{given}.get()));
  given.release();
  blocked_stream busy{first_device};
  auto suspended = std::async(std::launch::async, [&] {
    return hipvmm_suspend_in_stream("c_one_stream", HIPVMM_KEEP_CONTENTS, nullptr,
                                    stream_ref{given}.get(), nullptr);
  });
  const bool ended = comes_true([&] { return is_ready(suspended); });
  busy.release();
  CHECK(ended);
  CHECK(suspended.get() == HIPVMM_OK);
  require_ok(hipvmm_resume("c_one_stream", nullptr));
}

TEST_CASE("C device memory: a stream is forgotten in the bins of its resource too") {
  const owned_resource upstream = make_pool("forgets_streams=on");
  const owned_resource bin = make_pool("forgets_streams=on");
  const owned_resource bins{result_of(hipvmm_binning_create, upstream, nullptr)};
  require_ok(hipvmm_binning_add_bin(bins, 4 * KiB));
  require_ok(hipvmm_binning_add_bin_resource(bins, MiB, bin));
  require_ok(hipvmm_set_device_resource(0, bins));
  const stale_stream_calls stale;
  for (const std::size_t bytes : {4 * KiB, MiB, 2 * MiB}) {
    foreign_stream user;
    hipvmm_device_deallocate(user.get(), hipvmm_device_allocate(user.get(), bytes, 0), 0);
    require_ok(hipvmm_device_forget_stream(user.get()));
    user.end();
    const foreign_stream next;
    hipvmm_device_deallocate(next.get(), hipvmm_device_allocate(next.get(), bytes, 0), 0);
    CAPTURE(bytes);
    CHECK(stale.count() == 0);
    require_ok(hipvmm_device_forget_stream(next.get()));
  }
  require_ok(hipvmm_reset_device_resource(0));
}

/// The arena of the handler below, and the results of its calls there.
hipvmm_slot_arena failing_arena = nullptr;
std::vector<hipvmm_status> answers;

TEST_CASE("C slots: an error handler may use the arena, also when it has evicted before") {
  const owned_slot_arena arena{
      result_of(hipvmm_slot_arena_create, 0,
                "slots=3,bytes_per_slot=8MiB,block=2MiB,prefetch=0,budget=4MiB")};
  const auto commit = [&](std::size_t slot, std::size_t length) {
    return hipvmm_slot_arena_commit(arena, &slot, &length, 1, nullptr);
  };
  require_ok(commit(0, 1));
  require_ok(commit(1, 1));
  failing_arena = arena;
  answers.clear();
  require_ok(hipvmm_slot_arena_set_eviction(
      arena,
      [](std::size_t, void*) { return hipvmm_slot_arena_release(failing_arena, 0, nullptr); },
      nullptr));
  require_ok(commit(2, 1));
  require_ok(hipvmm_slot_arena_release(arena, 1, nullptr));
  require_ok(hipvmm_slot_arena_release(arena, 2, nullptr));
  require_ok(hipvmm_synchronize(nullptr));
  require_ok(hipvmm_slot_arena_trim(arena, nullptr));
  require_ok(hipvmm_set_error_handler([](const char*, int, const char*) {
    std::size_t bytes = 0;
    answers.push_back(hipvmm_slot_arena_length(failing_arena, 0, &bytes));
  }));
  {
    // The second block fails, and so does the undoing of the first.
    const planned_faults failing{
        "hipMemMap nth=2 error=hipErrorUnknown; hipMemUnmap error=hipErrorUnknown"};
    CHECK(commit(0, 3 << 20) == HIPVMM_ERROR_HIP);
  }
  require_ok(hipvmm_set_error_handler(nullptr));
  CHECK_FALSE(answers.empty());
  for (const hipvmm_status each : answers) CHECK(each == HIPVMM_OK);
}

HIPVMM_TEST_CASE_IN("C idle memory: requests that got it are counted",
                    {"HIPVMM_HOST_MEMORY=64MiB"}) {
  const auto use = [](hipvmm_resource pool, std::size_t bytes) {
    void* const memory = result_of(hipvmm_allocate, pool, bytes, 0, nullptr);
    require_ok(hipvmm_deallocate(pool, memory, bytes, 0, nullptr));
    require_ok(hipvmm_synchronize(nullptr));
  };
  hipvmm_idle_statistics now{};
  CHECK(hipvmm_idle_get_statistics(&now) == HIPVMM_ERROR_INVALID_ARGUMENT);
  const owned_resource first = make_pool();
  use(first, 48 << 20);
  CHECK(result_of(hipvmm_idle_get_statistics).asked == 0);
  const owned_resource second = make_pool();
  use(second, 32 << 20);
  now = result_of(hipvmm_idle_get_statistics);
  CHECK(now.asked > 0);
  CHECK(now.refused == 0);
  CHECK(now.released_bytes + now.moved_bytes >= 16 << 20);
  CHECK(now.nanoseconds > 0);
}

HIPVMM_TEST_CASE_IN("C evictable: threads ask for the numbers of what others evict",
                    {"HIPVMM_HOST_MEMORY=64MiB"}) {
  const owned_buffer buffer = make_buffer("max=1GiB,step_limit=0,sleep_tag=c_asked");
  require_ok(hipvmm_buffer_resize(buffer, 32 << 20, nullptr));
  const owned_handle<hipvmm_evictable, hipvmm_evictable_destroy> held{
      result_of(hipvmm_evictable_create, "c_asked", 0, nullptr, nullptr, nullptr)};
  std::atomic<bool> is_over{false};
  std::thread asker{[&] {
    while (!is_over) {
      CHECK(result_of(hipvmm_buffer_capacity, buffer) == 32 << 20);
      CHECK(result_of(hipvmm_buffer_get_statistics, buffer).chunks <= 1);
    }
  }};
  const owned_buffer other = make_buffer("max=1GiB,step_limit=0");
  for (int i = 0; i < 5; ++i) {
    require_ok(hipvmm_evictable_use(held, nullptr, 1));
    require_ok(hipvmm_evictable_done(held, nullptr));
    require_ok(hipvmm_synchronize(nullptr));
    require_ok(hipvmm_buffer_resize(other, 48 << 20, nullptr));
    require_ok(hipvmm_buffer_resize(other, 0, nullptr));
    require_ok(hipvmm_buffer_shrink(other, HIPVMM_TAIL_KEEP, nullptr, nullptr));
  }
  is_over = true;
  asker.join();
  CHECK(result_of(hipvmm_evictable_get_statistics, held).evictions == 5);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
