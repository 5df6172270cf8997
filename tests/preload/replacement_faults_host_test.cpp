// SPDX-License-Identifier: MIT
// The code behind the replaced functions, with HIP calls that fail one after another.
#include <nlohmann/json.hpp>

#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "preload/hip_calls.hpp"
#include "preload/preload_program.hpp"
#include "preload/replacement.hpp"
#include "preload/settings.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/device_contexts.hpp"
#include "support/host/foreign_stream.hpp"
#include "support/host/host_test.hpp"
#include "support/pools_are_missing.hpp"
#include "support/process/program.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

struct subject {
  preload::replacement calls{preload::settings{}};
  stream on;
  void* held = nullptr;
  void* made = nullptr;
  bool is_held = true;

  subject() { REQUIRE(calls.allocate(hip_calls, &held, MiB) == 0); }
  ~subject() {
    if (made != nullptr) CHECK(calls.free(hip_calls, made) == 0);
    if (is_held) CHECK(calls.free(hip_calls, held) == 0);
  }
  subject& operator=(subject&&) = delete;
};

/// For the sweep. HIP's last error is the program's, as it would be without us.
void throw_unless_ok(int result) {
  if (result == 0) return;
  static_cast<void>(hipGetLastError());
  throw std::runtime_error{"refused"};
}

std::unique_ptr<subject> make() { return std::make_unique<subject>(); }

template <typename Operation>
void sweep(const char* name, Operation operation) {
  fault_sweep{name, after_failure::capacity}.run(
      make, operation, [](auto& each) { CHECK(each.made == nullptr); }, [](const auto&) {});
}

HIPVMM_TEST_CASE_IN("preload: the pool's peers get no context because the program frees",
                    {"HIPVMM_HOST_PROFILE=cuda-13", "HIPVMM_HOST_DEVICES=2",
                     "HIPVMM_TESTS_PROBE_LATER=1"}) {
  preload::replacement calls{preload::settings{}};
  void* made = allocate(calls, 3 * MiB);
  CHECK(calls.free(hip_calls, made) == 0);
  CHECK_FALSE(has_primary_context(device_ref{1}));
  blocked_stream busy{device_ref{1}};
  REQUIRE(calls.allocate(hip_calls, &made, 3 * MiB) == 0);
  std::atomic<bool> freed{false};
  std::thread frees{[&] {
    CHECK(calls.free(hip_calls, made) == 0);
    freed = true;
  }};
  CHECK_FALSE(happens([&] { return freed.load(); }));
  busy.release();
  frees.join();
}

/// Calls that make a device current, of a thread that allocates and frees twice.
std::vector<std::uint64_t> device_calls_of_a_thread(preload::replacement& calls, bool in_order) {
  std::vector<std::uint64_t> counts;
  std::thread fresh{[&] {
    for (int i = 0; i < 2; ++i) {
      const call_counter sets{"hipSetDevice"};
      void* const made =
          in_order ? allocate(calls, MiB, stream_ref::legacy_default()) : allocate(calls, MiB);
      counts.push_back(sets.count());
      CHECK(calls.free_async(hip_calls, made, stream_ref::legacy_default()) == 0);
    }
  }};
  fresh.join();
  return counts;
}

// HIP's own functions do so in a thread that has no context; memory that is ready takes no call.
HIPVMM_TEST_CASE_IN("preload: on CUDA the first memory of a thread leaves it a context",
                    {"HIPVMM_HOST_PROFILE=cuda-13"}) {
  preload::replacement calls{preload::settings{}};
  void* made = allocate(calls, MiB);
  CHECK(calls.free(hip_calls, made) == 0);
  for (const bool in_order : {false, true})
    CHECK(device_calls_of_a_thread(calls, in_order) == std::vector<std::uint64_t>{1, 0});
  // A failed hipSetDevice is no failure of the request.
  std::thread fresh{[&] {
    const error_recorder reported;
    const planned_fault fault{"hipSetDevice", 1, hipErrorUnknown};
    CHECK(calls.allocate(hip_calls, &made, MiB) == 0);
    CHECK(hipGetLastError() == hipSuccess);
    CHECK(reported.count() == 1);
    CHECK(calls.free(hip_calls, made) == 0);
  }};
  fresh.join();
}

HIPVMM_TEST_CASE_IN("preload: on AMD no device is made current for a thread",
                    {"HIPVMM_HOST_PROFILE=rocm-7.2"}) {
  preload::replacement calls{preload::settings{}};
  void* const made = allocate(calls, MiB);
  CHECK(calls.free(hip_calls, made) == 0);
  CHECK(device_calls_of_a_thread(calls, false) == std::vector<std::uint64_t>{0, 0});
}

TEST_CASE("preload: allocations whose HIP calls fail fail as HIP's own, and lose nothing") {
  sweep("hipMalloc",
        [](auto& each) { throw_unless_ok(each.calls.allocate(hip_calls, &each.made, 3 * MiB)); });
  sweep("hipMallocAsync", [](auto& each) {
    throw_unless_ok(each.calls.allocate_async(hip_calls, &each.made, 3 * MiB, each.on));
  });
}

TEST_CASE("preload: frees whose HIP calls fail free all the same, or leave it allocated") {
  sweep("hipFree", [](auto& each) {
    throw_unless_ok(each.calls.free(hip_calls, each.held));
    each.is_held = false;
  });
  sweep("hipFreeAsync", [](auto& each) {
    throw_unless_ok(each.calls.free_async(hip_calls, each.held, each.on));
    each.is_held = false;
  });
}

TEST_CASE("preload: questions whose HIP calls fail") {
  sweep("hipMemGetInfo", [](auto& each) {
    std::size_t free = 0;
    std::size_t total = 0;
    throw_unless_ok(each.calls.memory_info(hip_calls, &free, &total));
    CHECK(free <= total);
  });
  sweep("hipDeviceReset", [](auto& each) {
    each.calls.reset_device(std::nullopt);
    // Without a current device it is not known whose pool ends.
    void* base = nullptr;
    std::size_t bytes = 0;
    each.is_held = each.calls.address_range(hip_calls, &base, &bytes, each.held) == 0;
  });
}

TEST_CASE("preload: a call of HIP that succeeds when idle memory is released leaves no error") {
  preload::replacement calls{{.most = MiB}};
  void* made = nullptr;
  const planned_fault full{"hipMalloc", 1, hipErrorOutOfMemory};
  REQUIRE(calls.allocate(hip_calls, &made, 2 * MiB) == 0);
  CHECK(full.struck());
  CHECK(hipGetLastError() == hipSuccess);
  CHECK(calls.free(hip_calls, made) == 0);
}

TEST_CASE("preload: where HIP does not say whose pool is the current one, it serves as before") {
  if (pools_are_missing()) return;
  const device_ref device{0};
  mr::hip_async_resource own{device};
  preload::replacement calls{preload::settings{}};
  const error_recorder reported;
  const auto goes_to_hip = [&] {
    const call_counter asked{"hipMallocAsync"};
    void* const made = allocate(calls, 3 * MiB, stream_ref::legacy_default());
    CHECK(calls.free_async(hip_calls, made, stream_ref::legacy_default()) == 0);
    return asked.count() == 1;
  };
  CHECK_FALSE(goes_to_hip());
  REQUIRE(hipDeviceSetMemPool(0, own.get()) == hipSuccess);
  calls.note_pool(device);
  CHECK(goes_to_hip());
  {
    const planned_fault fault{"hipDeviceGetMemPool", 1, hipErrorUnknown};
    CHECK(goes_to_hip());
  }
  CHECK(reported.count() == 1);
  REQUIRE(hipDeviceSetMemPool(0, mr::hip_async_resource::default_pool(device)) == hipSuccess);
  CHECK_FALSE(goes_to_hip());
}

HIPVMM_TEST_CASE_IN("preload: a stream that ends without a mark leaves no memory to the next",
                    {"HIPVMM_HOST_REUSE_HANDLES=1"}) {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  for (const bool is_captured : {false, true}) {
    CAPTURE(is_captured);
    const error_recorder reported;
    preload::replacement calls{preload::settings{}};
    foreign_stream user;
    ihipStream_t* const handle = user.get();
    void* const memory = allocate(calls, MiB, user);
    held_streams held;
    REQUIRE(hipMemsetAsync(memory, 1, MiB, handle) == hipSuccess);
    REQUIRE(calls.free_async(hip_calls, memory, user) == 0);
    if (is_captured) {
      REQUIRE(hipStreamBeginCapture(handle, hipStreamCaptureModeRelaxed) == hipSuccess);
    } else {
      hipvmm_host_fail_call("hipEventCreateWithFlags", 1, hipErrorUnknown);
    }
    calls.end_stream(user);
    user.end();
    CHECK(reported.count() == 1);
    const foreign_stream next;
    CHECK(next.get() == handle);
    void* const got = allocate(calls, MiB, next);
    CHECK(got != memory);
    held.release();
    CHECK(calls.free_async(hip_calls, got, next) == 0);
  }
}

// CUDA's driver ends with the exit handlers, before the libraries' destructors.
TEST_CASE("preload: statistics are written where HIP has ended") {
  const temporary_file text;
  const temporary_file json;
  preload::replacement calls{{.statistics = text.path(), .json = json.path()}};
  void* const made = allocate(calls, MiB);
  {
    const planned_faults ended{"any error=hipErrorDeinitialized"};
    calls.write_statistics();
  }
  const nlohmann::json counts = nlohmann::json::parse(json.contents(), nullptr, false);
  REQUIRE(!counts.is_discarded());
  CHECK(counts["bytes_now"] == MiB);
  REQUIRE(counts["pools"].size() == 1);
  CHECK(counts["pools"][0]["used"] == MiB);
  CHECK(contains(text.contents(), "device 0: held now, most"));
  CHECK(calls.free(hip_calls, made) == 0);
}

}  // namespace
}  // namespace hipvmm::test
