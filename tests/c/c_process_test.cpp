// SPDX-License-Identifier: MIT
// The C interface amid events of its process: callbacks that call back in, the ends of
// threads, and fork().
#include <pthread.h>

#include "c/c_interface.hpp"
#include "support/process/forked_child.hpp"

namespace hipvmm::test {
namespace {

/// Memory of a resource, from a callback that first uses the buffer of a case.
struct calling_back {
  owned_resource memory;
  hipvmm_buffer buffer = nullptr;
  hipvmm_status status = HIPVMM_OK;
  std::string message;

  calling_back() { require_ok(hipvmm_hip_create(0, memory.out())); }

  static void* allocate(std::size_t bytes, void* stream, void* argument) {
    auto& self = *static_cast<calling_back*>(argument);
    std::size_t size = 0;
    self.status = hipvmm_buffer_size(self.buffer, &size);
    self.message = hipvmm_last_error();
    void* made = nullptr;
    return hipvmm_allocate(self.memory, bytes, 0, stream, &made) == HIPVMM_OK ? made : nullptr;
  }
  static void deallocate(void* pointer, std::size_t bytes, void* stream, void* argument) {
    static_cast<void>(
        hipvmm_deallocate(static_cast<calling_back*>(argument)->memory, pointer, bytes, 0, stream));
  }
};

TEST_CASE("C interface: a callback that uses the buffer that grows is refused, and does not hang") {
  calling_back calls;
  const owned_resource resource{
      result_of(hipvmm_callback_create, calling_back::allocate, calling_back::deallocate, &calls)};
  const owned_buffer buffer{result_of(hipvmm_buffer_create_on, resource, nullptr)};
  calls.buffer = buffer;
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  CHECK(calls.status == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK_MESSAGE(
      calls.message.find("is in use by the call from which this one comes") != std::string::npos,
      calls.message);
  CHECK(size_of(buffer) == 3);
  const owned_buffer other = make_buffer();
  calls.buffer = other;
  require_ok(hipvmm_buffer_reserve(buffer, 4 * MiB));
  CHECK(calls.status == HIPVMM_OK);
}

TEST_CASE("C interface: a callback may destroy the handle of its resource") {
  struct held {
    owned_resource memory;
    hipvmm_resource own = nullptr;
    hipvmm_status status = HIPVMM_ERROR_INTERNAL;
  } of;
  require_ok(hipvmm_hip_create(0, of.memory.out()));
  require_ok(hipvmm_callback_create(
      [](std::size_t bytes, void* stream, void* argument) -> void* {
        auto& self = *static_cast<held*>(argument);
        self.status = hipvmm_resource_destroy(self.own);
        return result_of(hipvmm_allocate, self.memory, bytes, 0, stream);
      },
      [](void*, std::size_t, void*, void*) {}, &of, &of.own));
  void* const memory = result_of(hipvmm_allocate, of.own, 100, 0, nullptr);
  CHECK(of.status == HIPVMM_OK);
  CHECK(hipvmm_deallocate(of.own, memory, 100, 0, nullptr) == HIPVMM_ERROR_INVALID_HANDLE);
  require_ok(hipvmm_deallocate(of.memory, memory, 100, 0, nullptr));
}

TEST_CASE("C interface: a bin that allocates from its own bins is refused") {
  const owned_resource pool = make_pool();
  owned_resource outer;
  owned_resource counted;
  const owned_resource inner{result_of(hipvmm_binning_create, pool, nullptr)};
  require_ok(hipvmm_binning_create(pool, nullptr, outer.out()));
  require_ok(hipvmm_statistics_create(outer, counted.out()));
  const auto refused = [](hipvmm_status status) {
    return fails(status, HIPVMM_ERROR_INVALID_ARGUMENT, "no request would end");
  };
  CHECK(refused(hipvmm_binning_add_bin_resource(inner, 4 * KiB, inner)));
  CHECK(refused(hipvmm_binning_add_bin_resource(outer, 4 * KiB, counted)));
  require_ok(hipvmm_binning_add_bin_resource(outer, 4 * KiB, inner));
  CHECK(refused(hipvmm_binning_add_bin_resource(inner, 4 * KiB, outer)));
  CHECK(refused(hipvmm_binning_add_bin_resource(inner, 4 * KiB, counted)));
  void* const memory = result_of(hipvmm_allocate, counted, 100, 0, nullptr);
  require_ok(hipvmm_deallocate(counted, memory, 100, 0, nullptr));
}

/// Fails with a sentence that is too long for a string's own room, twice, and reads it.
bool fails_with_a_sentence() {
  for (int i = 0; i < 2; ++i) {
    std::size_t bytes = 0;
    if (hipvmm_buffer_size(nullptr, &bytes) != HIPVMM_ERROR_INVALID_HANDLE) return false;
    if (std::string{hipvmm_last_error()} !=
        "hipvmm_buffer_size: the handle of a buffer is expected, and this one is null")
      return false;
  }
  return true;
}

TEST_CASE("C interface: the last error of a thread can be read while its objects end") {
  // A thread's value for a key of POSIX ends behind its C++ objects.
  static std::atomic<bool> was_right{false};
  ::pthread_key_t key{};
  REQUIRE(::pthread_key_create(&key, [](void*) { was_right = fails_with_a_sentence(); }) == 0);
  std::thread{[&] {
    CHECK(fails_with_a_sentence());
    REQUIRE(::pthread_setspecific(key, &key) == 0);
  }}.join();
  ::pthread_key_delete(key);
  CHECK(was_right);
}

HIPVMM_TEST_CASE_IN("C interface: the last error can be read in an exit handler", {}) {
  // Behind the objects of the main thread.
  CHECK(std::atexit([] {
          if (!fails_with_a_sentence()) std::_Exit(7);
        }) == 0);
  CHECK(fails_with_a_sentence());
}

TEST_CASE("C interface: a child of fork() destroys handles, whatever other threads do meanwhile") {
  owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  owned_resource pool = make_pool();
  const owned_stream stream{result_of(hipvmm_stream_create, 0)};
  std::atomic<bool> done{false};
  const auto repeat = [&done](auto call) {
    return std::thread{[&done, call] {
      while (!done) call();
    }};
  };
  std::thread table = repeat([&pool] {
    hipvmm_resource adaptor = nullptr;
    static_cast<void>(hipvmm_statistics_create(pool, &adaptor));
    static_cast<void>(hipvmm_resource_destroy(adaptor));
  });
  std::thread calls = repeat([&buffer] {
    void* data = nullptr;
    static_cast<void>(hipvmm_buffer_data(buffer, &data));
  });
  for (int i = 0; i < 20; ++i)
    CHECK(succeeds_in_forked_child([&] {
      std::size_t bytes = 0;
      return hipvmm_buffer_size(buffer, &bytes) == HIPVMM_ERROR_UNSUPPORTED &&
             hipvmm_buffer_destroy(buffer) == HIPVMM_OK &&
             hipvmm_resource_destroy(pool) == HIPVMM_OK &&
             hipvmm_stream_destroy(stream) == HIPVMM_OK;
    }));
  done = true;
  table.join();
  calls.join();
  CHECK(size_of(buffer) == 3);
}

TEST_CASE("C interface: a child of fork() leaves its parent's slots and tags as they are" *
          needs_virtual_memory) {
  const owned_buffer buffer = make_buffer("max=64MiB,sleep_tag=c_forked");
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  const owned_slot_arena arena{
      [] { return result_of(hipvmm_slot_arena_create, 0, "slots=2,bytes_per_slot=4MiB"); }()};
  const std::size_t slot = 0;
  const std::size_t length = 100;
  require_ok(hipvmm_slot_arena_commit(arena, &slot, &length, 1, nullptr));
  hipvmm_tag_statistics now{};
  now.struct_size = sizeof now;
  const owned_buffer asleep = make_buffer("max=64MiB,sleep_tag=c_asleep");
  require_ok(hipvmm_buffer_append(asleep, "abc", 3, nullptr));
  void* const address = result_of(hipvmm_buffer_data, asleep);
  require_ok(hipvmm_suspend("c_asleep", HIPVMM_KEEP_NOTHING, nullptr, nullptr));
  std::atomic<bool> done{false};
  std::thread asking{[&] {
    while (!done) {
      static_cast<void>(hipvmm_tag_get_statistics("c_forked", &now));
      static_cast<void>(hipvmm_require_awake(address));
    }
  }};
  for (int i = 0; i < 10; ++i)
    CHECK(succeeds_in_forked_child([&] {
      std::size_t bytes = 0;
      hipvmm_buffer made = nullptr;
      return hipvmm_require_awake(address) == HIPVMM_ERROR_UNSUPPORTED &&
             hipvmm_slot_arena_length(arena, slot, &bytes) == HIPVMM_ERROR_UNSUPPORTED &&
             hipvmm_suspend("c_forked", HIPVMM_KEEP_NOTHING, nullptr, nullptr) ==
                 HIPVMM_ERROR_UNSUPPORTED &&
             hipvmm_resume("c_forked", nullptr) == HIPVMM_ERROR_UNSUPPORTED &&
             hipvmm_buffer_create(0, "sleep_tag=c_forked", &made) != HIPVMM_OK &&
             hipvmm_slot_arena_destroy(arena) == HIPVMM_OK &&
             hipvmm_buffer_destroy(buffer) == HIPVMM_OK;
    }));
  done = true;
  asking.join();
  CHECK(result_of(hipvmm_slot_arena_length, arena, slot) == length);
  require_ok(hipvmm_tag_get_statistics("c_forked", &now));
  CHECK(now.objects == 1);
}

TEST_CASE("C interface: a child of fork() is refused each resource, and may end it") {
  const owned_resource pool = make_pool("maximum=512MiB");
  std::vector<owned_resource> all(9);
  std::size_t made = 0;
  require_ok(hipvmm_hip_create(0, all[made++].out()));
  require_ok(hipvmm_managed_create(all[made++].out()));
  require_ok(hipvmm_arena_create(pool, "maximum=8MiB", all[made++].out()));
  require_ok(hipvmm_fixed_size_create(pool, nullptr, all[made++].out()));
  require_ok(hipvmm_binning_create(pool, nullptr, all[made++].out()));
  require_ok(hipvmm_statistics_create(pool, all[made++].out()));
  require_ok(hipvmm_tracking_create(pool, nullptr, all[made++].out()));
  require_ok(hipvmm_limiting_create(pool, 64 * MiB, nullptr, all[made++].out()));
  require_ok(hipvmm_set_device_resource(0, pool));
  std::vector<void*> memory;
  // Small blocks that a cache would serve to the child and to its parent.
  for (const owned_resource& each : all) {
    if (each.get() == nullptr) continue;
    require_ok(hipvmm_allocate(each, 1000, 0, nullptr, &memory.emplace_back()));
    require_ok(hipvmm_deallocate(each, memory.back(), 1000, 0, nullptr));
    require_ok(hipvmm_allocate(each, 1000, 0, nullptr, &memory.back()));
  }
  CHECK(succeeds_in_forked_child([&] {
    const auto is_refused = [](hipvmm_status status) {
      return fails(status, HIPVMM_ERROR_UNSUPPORTED, "a child of fork() cannot use");
    };
    bool is_right = true;
    const error_recorder reported;
    for (std::size_t i = 0; i < made; ++i) {
      void* taken = nullptr;
      int device = 0;
      is_right = is_right && is_refused(hipvmm_allocate(all[i], 1000, 0, nullptr, &taken)) &&
                 is_refused(hipvmm_deallocate(all[i], memory[i], 1000, 0, nullptr)) &&
                 is_refused(hipvmm_resource_device(all[i], &device));
    }
    hipvmm_pool_statistics now{};
    now.struct_size = sizeof now;
    std::size_t length = 0;
    hipvmm_resource found = nullptr;
    hipvmm_buffer buffer = nullptr;
    is_right = is_right && is_refused(hipvmm_pool_trim(pool, 0, 0, nullptr)) &&
               is_refused(hipvmm_pool_get_statistics(pool, &now)) &&
               is_refused(hipvmm_pool_report(pool, nullptr, 0, &length)) &&
               is_refused(hipvmm_get_device_resource(0, &found)) &&
               is_refused(hipvmm_set_device_resource(0, pool)) &&
               is_refused(hipvmm_reset_device_resource(0)) &&
               is_refused(hipvmm_buffer_create_on(pool, nullptr, &buffer));
    for (owned_resource& each : all) each.reset();
    return is_right && hipvmm_resource_destroy(pool) == HIPVMM_OK && reported.count() == 0;
  }));
  for (std::size_t i = 0; i < made; ++i)
    require_ok(hipvmm_deallocate(all[i], memory[i], 1000, 0, nullptr));
  require_ok(hipvmm_reset_device_resource(0));
}

HIPVMM_CHILD("frees null, and forks before HIP's first call") {
  hipvmm_device_deallocate(nullptr, nullptr, 0);
  hipvmm_device_deallocate_sync(nullptr);
  CHECK(succeeds_in_forked_child([] { return hipvmm_device_allocate_sync(100, 0) != nullptr; }));
}

TEST_CASE("device_deallocate: null ties the memory of a device to no process") {
  HIPVMM_SKIP_IF(HIPVMM_TEST_ON_AMD != 0 || HIPVMM_TEST_ON_CUDA != 0,
                 "the test program itself calls HIP before");
  check_child("frees null, and forks before HIP's first call");
}

HIPVMM_TEST_CASE_IN(
    "device_allocate: a child of fork() is refused, and exits beside its parent's threads", {}) {
  hipvmm_device_deallocate(nullptr, hipvmm_device_allocate(nullptr, 100, 0), 0);
  std::atomic<bool> done{false};
  std::thread allocating{[&done] {
    while (!done) hipvmm_device_deallocate(nullptr, hipvmm_device_allocate(nullptr, 100, 0), 0);
  }};
  void* const kept = hipvmm_device_allocate(nullptr, 100, 0);
  for (int i = 0; i < 100; ++i)
    CHECK(succeeds_in_forked_child([&] {
      hipvmm_resource pool = nullptr;
      hipvmm_device_deallocate(nullptr, kept, 0);
      hipvmm_device_deallocate_sync(kept);
      const bool is_refused =
          hipvmm_device_allocate(nullptr, 100, 0) == nullptr &&
          fails(HIPVMM_ERROR_UNSUPPORTED, HIPVMM_ERROR_UNSUPPORTED, "a child of fork()") &&
          hipvmm_device_allocate_sync(100, 0) == nullptr &&
          hipvmm_device_forget_stream(nullptr) == HIPVMM_ERROR_UNSUPPORTED &&
          hipvmm_device_pool(0, &pool) == HIPVMM_ERROR_UNSUPPORTED;
      std::exit(is_refused ? 0 : 1);
      return false;
    }));
  done = true;
  allocating.join();
  hipvmm_device_deallocate(nullptr, kept, 0);
}

TEST_CASE("C interface: objects end once, whoever destroys them while calls are under way") {
  for (int i = 0; i < 20; ++i) {
    const owned_resource pool = make_pool("maximum=64MiB");
    const hipvmm_buffer buffer = result_of(hipvmm_buffer_create_on, pool, nullptr);
    std::atomic<int> destroyed{0};
    std::atomic<bool> was_wrong{false};
    const auto use = [&] {
      for (int turn = 0; turn < 50; ++turn) {
        const hipvmm_status status = hipvmm_buffer_append(buffer, "abc", 3, nullptr);
        if (status == HIPVMM_ERROR_INVALID_HANDLE) return;
        if (status != HIPVMM_OK) was_wrong = true;
      }
    };
    const auto destroy = [&] {
      if (hipvmm_buffer_destroy(buffer) == HIPVMM_OK) ++destroyed;
    };
    std::thread threads[]{std::thread{use}, std::thread{use}, std::thread{destroy},
                          std::thread{destroy}};
    for (std::thread& each : threads) each.join();
    CHECK(destroyed == 1);
    CHECK(!was_wrong);
  }
}

}  // namespace
}  // namespace hipvmm::test
