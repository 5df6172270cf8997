// SPDX-License-Identifier: MIT
// HIP's contexts: each device has one, which is there as long as the process is.
#include <doctest/doctest.h>

#include <thread>

#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

hipCtx_t current_context() {
  hipCtx_t found = nullptr;
  REQUIRE(hipCtxGetCurrent(&found) == hipSuccess);
  return found;
}

int current() {
  int device = -1;
  REQUIRE(hipGetDevice(&device) == hipSuccess);
  return device;
}

}  // namespace

TEST_CASE("context: its arguments") {
  hipCtx_t made = nullptr;
  hipSharedMemConfig banks{};
  check_rules({
      {"no result", [] { return hipCtxCreate(nullptr, 0, 0); }},
      {"of no device", [&] { return hipCtxCreate(&made, 0, no_device); }},
      {"the end of none", [] { return hipCtxDestroy(nullptr); }},
      {"none is pushed", [] { return hipCtxPushCurrent(nullptr); }, hipErrorInvalidContext},
      {"no result", [] { return hipCtxGetCurrent(nullptr); }},
      {"no result", [] { return hipCtxGetDevice(nullptr); }},
      {"banks", [&] { return hipCtxGetSharedMemConfig(&banks); }, hipSuccess},
      {"no result", [] { return hipCtxGetSharedMemConfig(nullptr); }},
      {"a wait", [] { return hipCtxSynchronize(); }, hipErrorNotSupported},
      {"flags", [] { return hipCtxGetFlags(nullptr); }, hipErrorNotSupported},
      {"retained for nobody", [] { return hipDevicePrimaryCtxRetain(nullptr, 0); }},
      {"retained of no device", [&] { return hipDevicePrimaryCtxRetain(&made, no_device); },
       hipErrorInvalidDevice},
      {"released", [] { return hipDevicePrimaryCtxRelease(0); }, hipSuccess},
      {"released of no device", [] { return hipDevicePrimaryCtxRelease(no_device); },
       hipErrorInvalidDevice},
      {"flags of a device in use", [] { return hipDevicePrimaryCtxSetFlags(0, 0); },
       hipErrorContextAlreadyInUse},
  });
}

TEST_CASE("context: a thread's is that of its device") {
  const int devices = device_count();
  for (int device = devices - 1; device >= 0; --device) {
    REQUIRE(hipSetDevice(device) == hipSuccess);
    hipCtx_t primary = nullptr;
    REQUIRE(hipDevicePrimaryCtxRetain(&primary, device) == hipSuccess);
    CHECK(current_context() == primary);
    hipDevice_t told = -1;
    REQUIRE(hipCtxGetDevice(&told) == hipSuccess);
    CHECK(told == device);
    CHECK(hipDevicePrimaryCtxRelease(device) == hipSuccess);
  }
}

TEST_CASE("context: pushing one makes its device current, and popping returns it") {
  if (device_count() < 2) {
    MESSAGE("skipped: takes two devices");
    return;
  }
  std::thread{[] {
    hipCtx_t second = nullptr;
    REQUIRE(hipDevicePrimaryCtxRetain(&second, 1) == hipSuccess);
    REQUIRE(hipCtxPushCurrent(second) == hipSuccess);
    CHECK(current() == 1);
    CHECK(current_context() == second);
    hipCtx_t popped = nullptr;
    REQUIRE(hipCtxPopCurrent(&popped) == hipSuccess);
    CHECK(popped == second);
    CHECK(hipCtxPopCurrent(nullptr) == hipErrorInvalidContext);
    static_cast<void>(hipGetLastError());
    REQUIRE(hipCtxSetCurrent(second) == hipSuccess);
    CHECK(current() == 1);
    CHECK(hipCtxSetCurrent(nullptr) == hipSuccess);
    CHECK(hipDevicePrimaryCtxRelease(1) == hipSuccess);
  }}.join();
}

TEST_CASE("context: creating one gives the device's, on AMD without making it current") {
  const int last = device_count() - 1;
  std::thread{[last] {
    hipCtx_t made = nullptr;
    hipCtx_t primary = nullptr;
    REQUIRE(hipCtxCreate(&made, 0, last) == hipSuccess);
    REQUIRE(hipDevicePrimaryCtxRetain(&primary, last) == hipSuccess);
    CHECK(made == primary);
    CHECK(current() == (on_cuda ? last : 0));
    CHECK(hipCtxDestroy(made) == hipSuccess);
    CHECK(hipCtxPopCurrent(nullptr) == hipErrorInvalidContext);
    static_cast<void>(hipGetLastError());
  }}.join();
}
