// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/stream.hpp>
#include "c/c_interface.hpp"
#include "support/blocked_stream.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t array_bytes = 4 * MiB;

std::size_t used_of(hipvmm_resource pool) {
  return result_of(hipvmm_pool_get_statistics, pool).used_current;
}

void* allocate_in(stream_ref stream, std::size_t bytes = array_bytes, int device = 0) {
  void* const memory = hipvmm_device_allocate(stream.get(), bytes, device);
  REQUIRE_MESSAGE(memory != nullptr, hipvmm_last_error());
  return memory;
}

void deallocate_in(stream_ref stream, void* memory) {
  hipvmm_device_deallocate(stream.get(), memory, 0);
}

/// A pool that is set for device 0 as long as it lives.
struct pool_in_use {
  owned_resource pool = make_pool("maximum=128MiB,reuse_internal_dependencies=off");

  pool_in_use() { require_ok(hipvmm_set_device_resource(0, pool)); }
  ~pool_in_use() { CHECK(hipvmm_reset_device_resource(0) == HIPVMM_OK); }
};

TEST_CASE("C device memory: the pool of the device serves where no resource is set") {
  const owned_resource pool{result_of(hipvmm_device_pool, 0)};
  const std::size_t before = used_of(pool);
  const stream own{first_device};
  void* const memory = allocate_in(own);
  CHECK(used_of(pool) == before + array_bytes);
  deallocate_in(own, memory);
  CHECK(used_of(pool) == before);
  const owned_resource again{result_of(hipvmm_device_pool, 0)};
  CHECK(result_of(hipvmm_resource_is_equal, pool, again) == 1);
  require_ok(hipvmm_pool_trim(pool, 0, 1000, nullptr));
}

TEST_CASE("C device memory: each device has its own") {
  if (device_count() < 2) return;
  const owned_resource pool{result_of(hipvmm_device_pool, 1)};
  const stream own{device_ref{1}};
  void* const memory = allocate_in(own, array_bytes, 1);
  CHECK(used_of(pool) == array_bytes);
  const int device = result_of(hipvmm_resource_device, pool);
  CHECK(device == 1);
  // The current device and the device of this call do not matter.
  deallocate_in(own, memory);
  CHECK(used_of(pool) == 0);
  require_ok(hipvmm_pool_trim(pool, 0, 1000, nullptr));
}

TEST_CASE("C device memory: what a resource gave goes back there, whatever is set then") {
  const stream own{first_device};
  void* memory = nullptr;
  owned_resource pool;
  {
    pool_in_use set;
    memory = allocate_in(own);
    CHECK(used_of(set.pool) == array_bytes);
    require_ok(hipvmm_get_device_resource(0, pool.out()));
  }
  CHECK(used_of(pool) == array_bytes);
  deallocate_in(own, memory);
  CHECK(used_of(pool) == 0);
}

TEST_CASE("C device memory: its resource lives as long as what is allocated") {
  const stream own{first_device};
  void* memory = nullptr;
  {
    const pool_in_use set;
    memory = allocate_in(own);
  }
  const error_recorder reported;
  deallocate_in(own, memory);
  CHECK(reported.count() == 0);
}

TEST_CASE_FIXTURE(pool_in_use, "C device memory: it is freed in the order of the stream") {
  const stream own{first_device};
  for (const bool is_forgotten : {false, true}) {
    CAPTURE(is_forgotten);
    blocked_stream busy{first_device};
    void* const memory = allocate_in(busy);
    if (is_forgotten) require_ok(hipvmm_device_forget_stream(stream_ref{busy}.get()));
    deallocate_in(busy, memory);
    CHECK(!busy.is_done());  // nothing waited
    CHECK(used_of(pool) == 0);
    void* const other = allocate_in(own);
    CHECK(other != memory);  // `busy` may still use it
    deallocate_in(own, other);
    busy.release();
  }
  own.synchronize();
}

TEST_CASE_FIXTURE(pool_in_use, "C device memory: a stream may end after it was forgotten") {
  void* memory = nullptr;
  void* kept = nullptr;
  void* ended = nullptr;
  {
    const stream own{first_device};
    ended = own.get();
    memory = allocate_in(own);
    kept = allocate_in(own);
    deallocate_in(own, memory);
    require_ok(hipvmm_device_forget_stream(own.get()));
  }
  const error_recorder reported;
  hipvmm_device_deallocate(ended, kept, 0);
  const stream next{first_device};
  void* const all = allocate_in(next, 126 * MiB);  // nothing is held back for a stream that is gone
  deallocate_in(next, all);
  CHECK(reported.count() == 0);
}

TEST_CASE_FIXTURE(pool_in_use, "C device memory: another thread's default stream orders nothing") {
  const stream_ref mine = stream_ref::per_thread_default();
  void* const memory = allocate_in(mine);
  std::promise<void> gate;
  std::shared_future<void> opened{gate.get_future()};
  std::atomic<bool> passed{false};
  const auto wait = [](void* until) { static_cast<std::shared_future<void>*>(until)->wait(); };
  REQUIRE(hipLaunchHostFunc(mine.get(), wait, &opened) == hipSuccess);
  watched_thread other{[&] {
    deallocate_in(mine, memory);
    void* const next = hipvmm_device_allocate(mine.get(), array_bytes, 0);
    CHECK((next != memory || passed));  // this thread's stream still may use it until then
    deallocate_in(mine, next);
  }};
  other.comes_to_wait();
  passed = true;
  gate.set_value();
  other.join();
  mine.synchronize();  // the host function may have begun only now
  CHECK(used_of(pool) == 0);
}

TEST_CASE_FIXTURE(pool_in_use, "C device memory: without a stream nothing waits for its end") {
  void* const memory = hipvmm_device_allocate_sync(array_bytes, 0);
  REQUIRE(memory != nullptr);
  {
    blocked_stream busy{first_device};
    hipvmm_device_deallocate_sync(memory);
    CHECK(!busy.is_done());
    CHECK(used_of(pool) == 0);
  }
  void* const again = hipvmm_device_allocate_sync(array_bytes, 0);
  CHECK(again != nullptr);
  hipvmm_device_deallocate_sync(again);
  hipvmm_device_deallocate_sync(nullptr);
  CHECK(hipvmm_device_allocate_sync(0, 0) == nullptr);
  CHECK(hipvmm_device_allocate_sync(array_bytes, 99) == nullptr);
}

TEST_CASE_FIXTURE(pool_in_use, "C device memory: failures are null with a sentence, or reported") {
  CHECK(hipvmm_device_allocate(nullptr, 0, 0) == nullptr);
  CHECK(hipvmm_device_allocate(nullptr, array_bytes, 99) == nullptr);
  CHECK(std::string{hipvmm_last_error()}.find("99") != std::string::npos);
  CHECK(hipvmm_device_allocate(nullptr, 512 * MiB, 0) == nullptr);
  const auto failure = result_of(hipvmm_last_failure);
  CHECK(failure.status == HIPVMM_ERROR_OUT_OF_MEMORY);
  CHECK(failure.bytes_requested == 512 * MiB);
  CHECK(fails(hipvmm_device_pool(99, nullptr), HIPVMM_ERROR_INVALID_ARGUMENT, ""));
  const error_recorder reported;
  hipvmm_device_deallocate(nullptr, nullptr, 0);
  CHECK(reported.count() == 0);
  int other = 0;
  hipvmm_device_deallocate(nullptr, &other, 0);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors()[0].message.find("did not return") != std::string::npos);
}

TEST_CASE("C interface: the handle of a stream is refused in place of a hipStream_t") {
  const pool_in_use used;
  owned_stream made{result_of(hipvmm_stream_create, 0)};
  void* const stream = made.get();  // as C converts it, without a warning
  const owned_event event{result_of(hipvmm_event_create, 0)};
  const owned_buffer buffer = make_buffer();
  void* memory = nullptr;
  const auto is_refused = [](hipvmm_status status) {
    return fails(status, HIPVMM_ERROR_INVALID_ARGUMENT,
                 "the stream is a handle of hipvmm and must be a hipStream_t");
  };
  CHECK(is_refused(hipvmm_buffer_append(buffer, "abc", 3, stream)));
  CHECK(is_refused(hipvmm_allocate(used.pool, 1, 0, stream, &memory)));
  CHECK(is_refused(hipvmm_event_record(event, stream)));
  CHECK(is_refused(hipvmm_stream_wait(stream, event)));
  CHECK(is_refused(hipvmm_synchronize(stream)));
  char text[3] = {};
  CHECK(is_refused(hipvmm_copy_async(text, "abc", 3, stream)));
  CHECK(hipvmm_device_allocate(stream, 1, 0) == nullptr);
  if (!on_fallback()) {
    const owned_buffer tagged = make_buffer("max=64MiB,sleep_tag=handle_of_a_stream");
    CHECK(is_refused(hipvmm_suspend_in_stream("handle_of_a_stream", HIPVMM_KEEP_CONTENTS, nullptr,
                                              stream, nullptr)));
  }
  const std::size_t before = used_of(used.pool);
  memory = hipvmm_device_allocate(nullptr, 1, 0);
  {
    const error_recorder reported;
    hipvmm_device_deallocate(stream, memory, 0);
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors()[0].message.find("is a handle of hipvmm") != std::string::npos);
  }
  hipvmm_device_deallocate(nullptr, memory, 0);
  CHECK(used_of(used.pool) == before);
  made.reset();
  CHECK(is_refused(hipvmm_synchronize(stream)));  // also when it was destroyed
}

}  // namespace
}  // namespace hipvmm::test
