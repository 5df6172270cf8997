// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "core/hip_compat.hpp"
#include "providers/host/tests/device_limit.hpp"
#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

const auto stack_size = not_an_enumerator<hipLimit_t>(hipvmm::hip_compat::limit_stack_size);

struct reset_at_end {
  reset_at_end& operator=(reset_at_end&&) = delete;
  ~reset_at_end() {
    for (const int device : {1, 0}) {
      CHECK(hipSetDevice(device) == hipSuccess);
      CHECK(hipDeviceReset() == hipSuccess);
    }
    static_cast<void>(hipGetLastError());
  }
};

unsigned flags_now() {
  unsigned flags = 99;
  REQUIRE(hipGetDeviceFlags(&flags) == hipSuccess);
  return flags;
}

std::size_t limit_now(hipLimit_t limit) {
  std::size_t value = 0;
  REQUIRE(hipDeviceGetLimit(&value, limit) == hipSuccess);
  return value;
}

}  // namespace

TEST_CASE("device preferences: arguments outside the rules are refused") {
  size_t bytes = 0;
  check_refusals({
      {"limit beyond the enumeration",
       hipDeviceGetLimit(&bytes, not_an_enumerator<hipLimit_t>(hipvmm::hip_compat::limit_range))},
      {"setting one beyond the enumeration",
       hipDeviceSetLimit(not_an_enumerator<hipLimit_t>(hipvmm::hip_compat::limit_range), 8)},
  });
}

TEST_CASE("hipSetDeviceFlags: the schedule is kept for its device, the rest is not told") {
  const reset_at_end after;
  CHECK(flags_now() == hipDeviceScheduleAuto);
  constexpr unsigned ignored = hipDeviceMapHost | hipvmm::hip_compat::local_memory_resize_to_max;
  for (const unsigned schedule :
       {hipDeviceScheduleSpin, hipDeviceScheduleYield, hipDeviceScheduleBlockingSync}) {
    CAPTURE(schedule);
    CHECK(hipSetDeviceFlags(schedule | ignored) == hipSuccess);
    CHECK(flags_now() == schedule);
  }
  REQUIRE(hipSetDevice(1) == hipSuccess);
  CHECK(flags_now() == hipDeviceScheduleAuto);
}

TEST_CASE("hipDeviceSetLimit: is kept for its device") {
  const reset_at_end after;
  for (const hipLimit_t limit : {stack_size, hipLimitMallocHeapSize}) {
    CAPTURE(limit);
    REQUIRE(hipSetDevice(0) == hipSuccess);
    const std::size_t first = limit_now(limit);
    CHECK(first > 0);
    CHECK(hipDeviceSetLimit(limit, first + 8) == hipSuccess);
    CHECK(limit_now(limit) == first + 8);
    REQUIRE(hipSetDevice(1) == hipSuccess);
    CHECK(limit_now(limit) == first);
  }
}

TEST_CASE("hipDeviceSetCacheConfig: is kept for its device") {
  const reset_at_end after;
  hipFuncCache_t told{};
  for (const auto wanted : {hipFuncCachePreferEqual, hipFuncCachePreferL1}) {
    CHECK(hipDeviceSetCacheConfig(wanted) == hipSuccess);
    CHECK(hipDeviceGetCacheConfig(&told) == hipSuccess);
    CHECK(told == wanted);
  }
  REQUIRE(hipSetDevice(1) == hipSuccess);
  CHECK(hipDeviceGetCacheConfig(&told) == hipSuccess);
  CHECK(told == hipFuncCachePreferNone);
}
