// SPDX-License-Identifier: MIT
#include <hipvmm/core/driver_calls.hpp>

#include <hipvmm/runtime/device_allocation.hpp>
#include "support/test.hpp"

namespace hipvmm {
namespace {

driver_calls calls_of(std::string_view function) {
  const std::vector<driver_calls> all = memory_calls();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const driver_calls& each) { return each.function == function; });
  REQUIRE(found != all.end());
  return *found;
}

}  // namespace

TEST_CASE("memory_calls: a call adds to the count and the time of its function") {
  const driver_calls allocations = calls_of("hipMalloc");
  const driver_calls frees = calls_of("hipFree");
  { const device_allocation memory{device_ref{0}, MiB}; }
  CHECK(calls_of("hipMalloc").count == allocations.count + 1);
  CHECK(calls_of("hipMalloc").seconds > allocations.seconds);
  CHECK(calls_of("hipFree").count == frees.count + 1);
  CHECK(calls_of("hipFree").seconds > frees.seconds);
}

}  // namespace hipvmm
