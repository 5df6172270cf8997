// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <future>
#include <thread>
#include <vector>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

TIDY_CASE("stream: arguments outside the rules are refused") {
  hipStream_t made = nullptr;
  const event mark;
  check_refusals({
      {"create with flags null", hipStreamCreateWithFlags(nullptr, 0)},
      {"create with priority null", hipStreamCreateWithPriority(nullptr, 0, 0)},
      {"unknown flags with priority", hipStreamCreateWithPriority(&made, 4, 0)},
      {"priority null", hipStreamGetPriority(nullptr, nullptr)},
      {"callback with flags", hipStreamAddCallback(
                                  nullptr, [](hipStream_t, hipError_t, void*) {}, nullptr, 1)},
      {"no host function", hipLaunchHostFunc(nullptr, nullptr, nullptr)},
  });
}

WORK_CASE("stream: work is submitted without waiting and runs later") {
  bool ran = false;
  {
    const held_streams held;
    REQUIRE(hipLaunchHostFunc(work.get(), set_flag, &ran) == hipSuccess);
    CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
    CHECK_FALSE(ran);
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(ran);
  CHECK(hipStreamQuery(work.get()) == hipSuccess);
}

WORK_CASE("stream: operations run in the order they were submitted") {
  std::vector<int> seen;
  std::vector<numbered> entries;
  for (int i = 0; i < 500; ++i) entries.push_back({&seen, i});
  for (numbered& each : entries) {
    REQUIRE(hipLaunchHostFunc(work.get(), note, &each) == hipSuccess);
  }
  CHECK(work.wait() == hipSuccess);
  REQUIRE(seen.size() == 500);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
}

TIDY_CASE("stream: two streams run at the same time") {
  const stream first;
  const stream second;
  std::promise<void> second_ran;
  struct awaited {
    std::future<void> other;
  } waits{second_ran.get_future()};
  REQUIRE(hipLaunchHostFunc(
              first.get(), [](void* on) { static_cast<awaited*>(on)->other.wait(); }, &waits) ==
          hipSuccess);
  REQUIRE(hipLaunchHostFunc(
              second.get(), [](void* to) { static_cast<std::promise<void>*>(to)->set_value(); },
              &second_ran) == hipSuccess);
  CHECK(first.wait() == hipSuccess);
  CHECK(second.wait() == hipSuccess);
}

TIDY_CASE("stream: destruction returns at once and lets submitted work finish") {
  bool ran = false;
  {
    const held_streams held;
    const stream work;
    REQUIRE(hipLaunchHostFunc(work.get(), set_flag, &ran) == hipSuccess);
  }
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(ran);
}

TIDY_CASE("stream: flags and priority are those it was made with, the priority within its range") {
  int least = 0;
  int greatest = 0;
  REQUIRE(hipDeviceGetStreamPriorityRange(&least, &greatest) == hipSuccess);
  CHECK(least > greatest);
  for (const auto& [asked, given] :
       {std::pair{0, 0}, {greatest - 5, greatest}, {least + 5, least}}) {
    hipStream_t made = nullptr;
    REQUIRE(hipStreamCreateWithPriority(&made, hipStreamNonBlocking, asked) == hipSuccess);
    unsigned flags = 99;
    int priority = 99;
    CHECK(hipStreamGetFlags(made, &flags) == hipSuccess);
    CHECK(hipStreamGetPriority(made, &priority) == hipSuccess);
    CHECK(flags == hipStreamNonBlocking);
    CHECK(priority == given);
    CHECK(hipStreamDestroy(made) == hipSuccess);
  }
  unsigned flags = 99;
  CHECK(hipStreamGetFlags(hipStreamPerThread, &flags) == hipSuccess);
  CHECK(flags == hipStreamDefault);
}

TIDY_CASE("stream: it belongs to the device that was current, the null stream to the one that is") {
  const stream of_2{hipStreamDefault, 2};
  CHECK(hipGetStreamDeviceId(of_2.get()) == 2);
  REQUIRE(hipSetDevice(1) == hipSuccess);
  CHECK(hipGetStreamDeviceId(nullptr) == 1);
  CHECK(hipGetStreamDeviceId(hipStreamPerThread) == 1);
}

TIDY_CASE("stream: a callback is told the stream and an error that came before it") {
  struct told {
    hipStream_t stream = nullptr;
    hipError_t status = hipSuccess;
  } told_to;
  const auto callback = [](hipStream_t on, hipError_t status, void* to) {
    *static_cast<told*>(to) = {on, status};
  };
  const stream work;
  mapped mapping{granule};
  {
    const unordered_on_purpose makes_the_work_fail;
    const held_streams held;
    REQUIRE(hipMemsetAsync(mapping.at(), 1, 64, work.get()) == hipSuccess);
    REQUIRE(hipStreamAddCallback(work.get(), callback, &told_to, 0) == hipSuccess);
    mapping.unmap();
  }
  CHECK(work.wait() == hipErrorIllegalAddress);
  CHECK(told_to.stream == work.get());
  CHECK(told_to.status == hipErrorIllegalAddress);
}

TIDY_CASE("stream: a host function may submit work but not wait for it") {
  struct outcomes {
    hipStream_t stream;
    std::byte* memory;
    hipError_t submitted;
    hipError_t waited;
    hipError_t copied;
    std::byte target;
  };
  const stream work{hipStreamDefault};
  const mapped mapping{granule};
  outcomes found{work.get(),      mapping.at(),    hipErrorUnknown,
                 hipErrorUnknown, hipErrorUnknown, std::byte{5}};
  REQUIRE(hipLaunchHostFunc(
              work.get(),
              [](void* to) {
                auto& each = *static_cast<outcomes*>(to);
                each.submitted = hipMemsetAsync(each.memory, 9, 1, each.stream);
                each.waited = hipStreamSynchronize(each.stream);
                each.copied = hipMemcpyDtoH(&each.target, each.memory, 1);
              },
              &found) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(found.submitted == hipSuccess);
  CHECK(found.waited == hipErrorIllegalState);
  CHECK(found.copied == hipErrorIllegalState);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(found.target == std::byte{5});
  CHECK(*mapping.at() == std::byte{9});
}

TIDY_CASE("stream: hipDeviceSynchronize waits for every stream of the device") {
  const stream blocking{hipStreamDefault};
  const stream free;
  bool ran[4] = {};
  {
    const held_streams held;
    REQUIRE(hipLaunchHostFunc(blocking.get(), set_flag, &ran[0]) == hipSuccess);
    REQUIRE(hipLaunchHostFunc(free.get(), set_flag, &ran[1]) == hipSuccess);
    REQUIRE(hipLaunchHostFunc(nullptr, set_flag, &ran[2]) == hipSuccess);
    REQUIRE(hipLaunchHostFunc(hipStreamPerThread, set_flag, &ran[3]) == hipSuccess);
  }
  CHECK(hipDeviceSynchronize() == hipSuccess);
  for (const bool each : ran) CHECK(each);
}

TIDY_CASE("stream: hipDeviceSynchronize leaves the work of other devices alone") {
  const stream of_1{hipStreamNonBlocking, 1};
  bool ran = false;
  {
    const held_streams held;
    REQUIRE(hipLaunchHostFunc(of_1.get(), set_flag, &ran) == hipSuccess);
    CHECK(hipDeviceSynchronize() == hipSuccess);
    CHECK_FALSE(ran);
  }
  CHECK(of_1.wait() == hipSuccess);
}

TIDY_CASE("stream: every thread has a per-thread stream of its own, finished after its end") {
  bool ran = false;
  {
    const held_streams held;
    std::thread{[&] {
      static_cast<void>(hipLaunchHostFunc(hipStreamPerThread, set_flag, &ran));
    }}.join();
    CHECK(hipStreamQuery(hipStreamPerThread) == hipSuccess);
  }
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(ran);
}

WORK_CASE("stream: threads may share a stream") {
  const mapped mapping{granule};
  std::vector<int> seen;
  std::vector<numbered> entries(400, {&seen, 1});
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 100; ++i) {
        static_cast<void>(hipLaunchHostFunc(work.get(), note, &entries[t * 100 + i]));
        static_cast<void>(hipMemsetAsync(mapping.at(t), 1, 1, work.get()));
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(work.wait() == hipSuccess);
  CHECK(seen.size() == 400);
}

HIPVMM_CHILD("destroys a stream in its own host function") {
  struct outcome {
    hipStream_t stream;
    hipError_t destroyed;
  };
  const stream work;
  outcome found{work.get(), hipErrorUnknown};
  const auto destroy = [](void* to) {
    auto& each = *static_cast<outcome*>(to);
    each.destroyed = hipStreamDestroy(each.stream);
  };
  REQUIRE(hipLaunchHostFunc(work.get(), destroy, &found) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(hipStreamQuery(work.get()) == hipSuccess);
  CHECK(found.destroyed == hipErrorIllegalState);
}

TEST_CASE("stream: a destruction that would wait in a host function leaves the stream") {
  check_child("destroys a stream in its own host function", {"HIPVMM_HOST_PROFILE=rocm-6.4"});
}
