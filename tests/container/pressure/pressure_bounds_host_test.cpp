// SPDX-License-Identifier: MIT
// Watermarks of the device, of budgets and limits; captures, failures of HIP, threads.
#include <hipvmm/vmm/idle/pressure_subscription.hpp>

#include <unistd.h>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include "container/container_test.hpp"
#include "container/pressure/pressure_marks.hpp"
#include "support/host/host_test.hpp"
#include "support/process/forked_child.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test {
namespace {

using namespace pressure_marks;

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("pressure: each device has its own levels") {
  if (device_count() < 2) return;
  noted of_first;
  noted of_second;
  pressure_subscription first{first_device, of_first.callback(), in_request()};
  pressure_subscription second{second_device, of_second.callback(),
                               in_request(within_64(second_device))};
  const bytes_vector vector = vector_of(50 * MiB, second_device);
  CHECK(of_first.count() == 0);
  REQUIRE(of_second.count() == 1);
  CHECK(of_second.at(0).first.device == second_device.ordinal());
}

TEST_CASE("pressure: free memory of the device is asked near marks and after a while only") {
  pressure_subscription pressure{first_device, {.low = {0.5, 0}}};
  if (pressure.now().level != pressure_level::none) return;
  const call_counter asked{"hipMemGetInfo"};
  std::vector<bytes_vector> vectors;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) vectors.push_back(vector_of(2 * MiB));
  const auto periods =
      static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin) / milliseconds{100});
  CHECK(asked.count() <= 4 * (periods + 1));
  const std::size_t most = first_device.free_memory() - first_device.total_memory() * 2 / 5;
  vectors.push_back(vector_of(most / granule() * granule()));
  const auto low = pressure.wait(longest);
  REQUIRE(low);
  CHECK(low->bound == exhausted::device_memory);
  CHECK(low->free_bytes == first_device.free_memory());
}

TEST_CASE("pressure: an interval sees memory of others") {
  const pressure_options options{.low = {0.5, 0}, .interval = milliseconds{5}};
  noted notes;
  pressure_subscription pressure{first_device, notes.callback(), options};
  if (pressure.now().level != pressure_level::none) return;
  void* others = nullptr;
  const std::size_t bytes = first_device.free_memory() - first_device.total_memory() * 2 / 5;
  REQUIRE(hipMalloc(&others, bytes) == hipSuccess);
  REQUIRE(notes.has(1));
  CHECK(notes.at(0).first.level == pressure_level::low);
  REQUIRE(hipFree(others) == hipSuccess);
  REQUIRE(notes.has(2));
  CHECK(notes.at(1).first.level == pressure_level::none);
}

TEST_CASE("pressure: the room in a budget is a bound, which others lower") {
  const std::string name = "pressure-" + std::to_string(::getpid());
  {
    memory_budget budget{first_device, name, held_bytes() + 64 * MiB};
    pressure_subscription pressure{first_device,
                                   {.low = {0, 32 * MiB},
                                    .high = {0, 16 * MiB},
                                    .hysteresis = 0,
                                    .device_memory = false,
                                    .interval = milliseconds{5}}};
    const bytes_vector vector = vector_of(40 * MiB);
    const auto low = pressure.wait(longest);
    REQUIRE(low);
    CHECK(low->level == pressure_level::low);
    CHECK(low->bound == exhausted::budget);
    CHECK(low->free_bytes == 24 * MiB);
    budget.set_limit(budget.bytes() + 10 * MiB);
    const auto high = pressure.wait(longest);
    REQUIRE(high);
    CHECK(high->level == pressure_level::high);
    CHECK(high->free_bytes == 10 * MiB);
  }
  memory_budget::remove(name, first_device.uuid());
}

TEST_CASE("pressure: an error handler may use the subscription whose look reports") {
  static pressure_subscription* used = nullptr;
  pressure_subscription subscription{first_device};
  used = &subscription;
  const error_handler before = set_error_handler([](const char*, int, const char*) noexcept {
    static_cast<void>(used->now());
    static_cast<void>(vector_of(2 * MiB));
  });
  const scoped_device elsewhere{device_ref{1}};
  for (const char* const call : {"hipThreadExchangeStreamCaptureMode", "hipSetDevice"}) {
    CAPTURE(call);
    drain_retired_memory();  // of the handler's vector; its thread makes such calls too
    const planned_fault fault{call, 2, hipErrorInvalidValue};
    static_cast<void>(used->now());
    CHECK(fault.struck());
  }
  set_error_handler(before);
}

TEST_CASE("pressure: no callback runs in a thread whose stream is captured") {
  noted notes;
  mr::vmm_pool_resource pool{first_device};
  pressure_subscription pressure{first_device, notes.callback(), in_request()};
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal}) {
    const stream captured;
    const std::size_t before = notes.count();
    REQUIRE(hipStreamBeginCapture(captured.get(), mode) == hipSuccess);
    void* block = nullptr;
    try {
      block = pool.allocate(captured, 40 * MiB);
    } catch (const std::exception&) {
      MESSAGE("the pool serves no captured stream here");
    }
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
    if (graph != nullptr) REQUIRE(hipGraphDestroy(graph) == hipSuccess);
    if (block == nullptr) continue;
    REQUIRE(notes.has(before + 1));
    CHECK(notes.at(before).second != std::this_thread::get_id());
    pool.deallocate(captured, block, 40 * MiB);
    captured.synchronize();
    pool.trim_to(0);
    held_bytes();
    if (!capability_of(first_device).needs(quirk::re_reserve)) REQUIRE(notes.has(before + 2));
  }
}

TEST_CASE("pressure: the whole is a mark of the largest limit too") {
  pressure_options options;
  options.low = {1, 0};
  options.high = options.critical = {};
  options.hysteresis = 1;
  options.device_memory = false;
  options.limit = std::numeric_limits<std::size_t>::max();
  pressure_subscription all{first_device, options};
  CHECK(all.now().level == pressure_level::low);
}

TEST_CASE("pressure: bad options, and a child of fork()") {
  pressure_options options;
  options.high.fraction = 1.5;
  CHECK_THROWS_AS((pressure_subscription{first_device, options}), std::invalid_argument);
  options = {};
  options.interval = milliseconds{-1};
  CHECK_THROWS_AS((pressure_subscription{first_device, options}), std::invalid_argument);
  CHECK_THROWS_AS((pressure_subscription{device_ref{99}}), std::invalid_argument);
  pressure_subscription from{first_device};
  const pressure_subscription to{std::move(from)};
  CHECK_THROWS_AS(static_cast<void>(from.now()), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(from.wait({})), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(from.reasons()), std::invalid_argument);
  auto pressure = std::make_unique<pressure_subscription>(first_device, within_64());
  CHECK(succeeds_in_forked_child([&] {
    try {
      static_cast<void>(pressure->now());
      return false;
    } catch (const unsupported&) {
    }
    try {
      static_cast<void>(pressure->reasons());
      return false;
    } catch (const unsupported&) {
    }
    try {
      const pressure_subscription second{first_device};
      return false;
    } catch (const unsupported&) {
    }
    pressure.reset();
    return true;
  }));
}

TEST_CASE("pressure: wait() ends with the subscription") {
  pressure_subscription pressure{first_device, within_64()};
  std::atomic<bool> waits{false};
  std::thread waiting{[&] {
    waits = true;
    CHECK_FALSE(pressure.wait(longest));
  }};
  while (!waits) std::this_thread::yield();
  pressure.end();
  waiting.join();
}

TEST_CASE("pressure: threads grow and shrink beside subscriptions that come and go") {
  std::atomic<bool> ends{false};
  std::atomic<int> calls{0};
  std::atomic<int> rounds{0};
  mr::vmm_pool_resource pool{first_device};
  const auto use = [&] {
    const stream own;
    while (!ends) {
      { const bytes_vector vector = vector_of(20 * MiB); }
      void* const block = pool.allocate(own, 20 * MiB);
      pool.deallocate(own, block, 20 * MiB);
      pool.trim_to(0);
      ++rounds;
    }
  };
  pressure_options options = within_64();
  std::thread one{use};
  std::thread other{use};
  for (int i = 0; i < 20; ++i) {
    options.delivery =
        i % 2 == 0 ? pressure_delivery::library_thread : pressure_delivery::requesting_thread;
    const pressure_subscription pressure{first_device,
                                         [&](const pressure_note&) {
                                           ++calls;
                                           pool.trim_to(0);
                                         },
                                         options};
    pressure_subscription polled{first_device, options};
    static_cast<void>(polled.wait(milliseconds{2}));
    static_cast<void>(polled.now());
    while (rounds < 4 * i) std::this_thread::yield();
  }
  ends = true;
  one.join();
  other.join();
}

HIPVMM_TEST_CASE_IN("pressure: any call of HIP may fail in a request that passes a mark",
                    {"HIPVMM_HOST_MEMORY=4GiB"}) {
  struct watched {
    std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
    pressure_subscription pressure;
    bytes_vector vector{first_device};
    watched()
        : pressure{first_device, [count = calls](const pressure_note&) { ++*count; },
                   [] {
                     pressure_options options = in_request();
                     options.device_memory = true;
                     return options;
                   }()} {}
  };
  fault_sweep{"a vector passes a mark", after_failure::capacity}.run<watched>(
      [](auto& of) { of.vector.resize_uninitialized(40 * MiB); },
      [](auto& of) {
        of.vector.resize_uninitialized(40 * MiB);
        while (*of.calls == 0) std::this_thread::yield();
      },
      [](auto& of) {
        static_cast<void>(of.pressure.now());
        while (*of.calls == 0) std::this_thread::yield();
      });
}

HIPVMM_TEST_CASE_IN("pressure: the driver counts what the library holds after pressure",
                    {"HIPVMM_HOST_MEMORY=256MiB"}) {
  const auto counted = [] {
    const std::size_t held = held_bytes();
    return first_device.free_memory() + held;
  };
  const std::size_t before = counted();
  {
    noted notes;
    pressure_subscription pressure{
        first_device,
        notes.callback(),
        {.low = {0.5, 0}, .delivery = pressure_delivery::requesting_thread}};
    std::vector<bytes_vector> vectors;
    try {
      for (;;) vectors.push_back(vector_of(16 * MiB));
    } catch (const out_of_memory&) {
    }
    CHECK(notes.count() >= 3);
    REQUIRE(pressure.now().level == pressure_level::critical);
  }
  CHECK(counted() == before);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
