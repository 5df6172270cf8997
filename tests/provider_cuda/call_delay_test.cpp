// SPDX-License-Identifier: MIT
// HIPVMM_CUDA_DELAYS: other prices for the driver's calls.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <chrono>

#include "support/process/child_process.hpp"

namespace hipvmm::test {
namespace {

using std::chrono::steady_clock;

HIPVMM_TEST_CASE_IN("call_delay: calls take their delay more",
                    {"HIPVMM_CUDA_DELAYS=hipMalloc delay=20ms; hipMemMap delay=300us"}) {
  void* made = nullptr;
  const auto before = steady_clock::now();
  REQUIRE(hipMalloc(&made, 1) == hipSuccess);
  CHECK(steady_clock::now() - before >= std::chrono::milliseconds{20});
  CHECK(hipFree(made) == hipSuccess);
}

HIPVMM_TEST_CASE_IN("call_delay: a rule that is not valid refuses the calls",
                    {"HIPVMM_CUDA_DELAYS=hipMalloc delay=20"}) {
  void* made = nullptr;
  CHECK(hipMalloc(&made, 1) == hipErrorInvalidValue);
  CHECK(made == nullptr);
}

}  // namespace
}  // namespace hipvmm::test
