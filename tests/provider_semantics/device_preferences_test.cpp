// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>

#include "core/hip_compat.hpp"
#include "fixtures.hpp"
#include "rules.hpp"
#include "support/process/child_process.hpp"

// The header of 5.2 lacks it, and so does AMD's library of that release.
extern "C" [[gnu::weak]] hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value);

using namespace hipvmm::test;

namespace {

const auto stack_size = no_such<hipLimit_t>(hipvmm::hip_compat::limit_stack_size);
constexpr const char* prefers = "prefers and resets its device";

bool can_set_limits() {
  if (hipDeviceSetLimit != nullptr) return true;
  MESSAGE("skipped: this HIP has no hipDeviceSetLimit");
  return false;
}

std::size_t limit_now(hipLimit_t limit) {
  std::size_t value = 0;
  REQUIRE(hipDeviceGetLimit(&value, limit) == hipSuccess);
  return value;
}

hipFuncCache_t cache_now() {
  auto config = no_such<hipFuncCache_t>(99);
  REQUIRE(hipDeviceGetCacheConfig(&config) == hipSuccess);
  return config;
}

unsigned flags_now() {
  unsigned flags = 99;
  REQUIRE(hipGetDeviceFlags(&flags) == hipSuccess);
  return flags;
}

}  // namespace

TEST_CASE("device flags: their arguments") {
  check_rules({
      {"without a result", [] { return hipGetDeviceFlags(nullptr); }},
      {"two schedules",
       [] { return hipSetDeviceFlags(hipDeviceScheduleSpin | hipDeviceScheduleYield); }},
      {"all schedules", [] { return hipSetDeviceFlags(hipDeviceScheduleMask); }},
      {"unknown", [] { return hipSetDeviceFlags(0x20); }},
  });
}

TEST_CASE("device flags: the schedule is kept and told, the rest is not told") {
  constexpr unsigned untold = hipDeviceMapHost | hipvmm::hip_compat::local_memory_resize_to_max;
  const unsigned first = flags_now();
  for (const unsigned schedule :
       {hipDeviceScheduleSpin, hipDeviceScheduleYield, hipDeviceScheduleBlockingSync}) {
    CAPTURE(schedule);
    CHECK(hipSetDeviceFlags(schedule | untold) == hipSuccess);
    CHECK(flags_now() == schedule);
  }
  CHECK(hipSetDeviceFlags(first) == hipSuccess);
}

TEST_CASE("device limit: which can be asked for") {
  std::size_t bytes = 0;
  check_rules({
      {"stack", [&] { return hipDeviceGetLimit(&bytes, stack_size); }, hipSuccess},
      {"heap", [&] { return hipDeviceGetLimit(&bytes, hipLimitMallocHeapSize); }, hipSuccess},
      {"heap without a result", [] { return hipDeviceGetLimit(nullptr, hipLimitMallocHeapSize); }},
      {"output of kernels", [&] { return hipDeviceGetLimit(&bytes, hipLimitPrintfFifoSize); },
       hipErrorUnsupportedLimit},
      {"none", [&] { return hipDeviceGetLimit(&bytes, no_such<hipLimit_t>(-1)); },
       hipErrorUnsupportedLimit},
  });
}

TEST_CASE("device limit: which can be set") {
  if (!can_set_limits()) return;
  const std::size_t stack = limit_now(stack_size);
  const std::size_t heap = limit_now(hipLimitMallocHeapSize);
  check_rules({
      {"stack", [&] { return hipDeviceSetLimit(stack_size, stack); }, hipSuccess},
      {"heap", [&] { return hipDeviceSetLimit(hipLimitMallocHeapSize, heap); }, hipSuccess},
      {"output of kernels", [] { return hipDeviceSetLimit(hipLimitPrintfFifoSize, 8); },
       hipErrorUnsupportedLimit},
      {"none", [] { return hipDeviceSetLimit(no_such<hipLimit_t>(-1), 8); },
       hipErrorUnsupportedLimit},
  });
  CHECK(limit_now(stack_size) == stack);
  CHECK(limit_now(hipLimitMallocHeapSize) == heap);
}

TEST_CASE("device limit: is at least what was asked for") {
  if (!can_set_limits()) return;
  for (const hipLimit_t limit : {stack_size, hipLimitMallocHeapSize}) {
    CAPTURE(limit);
    const std::size_t first = limit_now(limit);
    CHECK(hipDeviceSetLimit(limit, 2 * first) == hipSuccess);
    // CUDA rounds.
    CHECK(limit_now(limit) >= 2 * first);
    CHECK(hipDeviceSetLimit(limit, first) == hipSuccess);
  }
}

TEST_CASE("preferred cache: its arguments") {
  check_rules({
      {"without a result", [] { return hipDeviceGetCacheConfig(nullptr); }},
      {"unknown", [] { return hipDeviceSetCacheConfig(no_such<hipFuncCache_t>(4)); }},
      {"negative", [] { return hipDeviceSetCacheConfig(no_such<hipFuncCache_t>(-1)); }},
  });
}

TEST_CASE("preferred cache: is told, or none where the device has no choice") {
  const hipFuncCache_t first = cache_now();
  for (const hipFuncCache_t wanted : {hipFuncCachePreferShared, hipFuncCachePreferL1,
                                      hipFuncCachePreferEqual, hipFuncCachePreferNone}) {
    CAPTURE(wanted);
    CHECK(hipDeviceSetCacheConfig(wanted) == hipSuccess);
    const hipFuncCache_t told = cache_now();
    CHECK((told == wanted || told == hipFuncCachePreferNone));
  }
  CHECK(hipDeviceSetCacheConfig(first) == hipSuccess);
}

TEST_CASE("banks of shared memory: have four bytes, whichever known width is asked for") {
  const auto set = [](int width) {
    return hipDeviceSetSharedMemConfig(no_such<hipSharedMemConfig>(width));
  };
  check_rules({
      {"without a result", [] { return hipDeviceGetSharedMemConfig(nullptr); }},
      {"default", [&] { return set(hipSharedMemBankSizeDefault); }, hipSuccess},
      {"four", [&] { return set(hipSharedMemBankSizeFourByte); }, hipSuccess},
      {"eight", [&] { return set(hipSharedMemBankSizeEightByte); }, hipSuccess},
      {"unknown", [&] { return set(3); }},
      {"negative", [&] { return set(-1); }},
  });
  hipSharedMemConfig told{};
  CHECK(hipDeviceGetSharedMemConfig(&told) == hipSuccess);
  CHECK(told == hipSharedMemBankSizeFourByte);
}

TEST_CASE("device preferences: a reset takes limits and the preferred cache back") {
  if (!can_set_limits()) return;
  check_child(prefers);
}

HIPVMM_CHILD("prefers and resets its device") {
  const std::size_t first = limit_now(hipLimitMallocHeapSize);
  REQUIRE(hipDeviceSetLimit(hipLimitMallocHeapSize, 2 * first) == hipSuccess);
  REQUIRE(hipDeviceSetCacheConfig(hipFuncCachePreferL1) == hipSuccess);
  CHECK(hipDeviceReset() == hipSuccess);
  CHECK(limit_now(hipLimitMallocHeapSize) == first);
  CHECK(cache_now() == hipFuncCachePreferNone);
}
