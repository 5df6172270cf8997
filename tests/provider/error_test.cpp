// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <string>
#include <thread>

#include "fixtures.hpp"

using namespace hipvmm::test;

TEST_CASE("error: a code has HIP's name and a text of its own") {
  for (const auto& [code, name] : {std::pair{hipSuccess, "hipSuccess"},
                                   std::pair{hipErrorInvalidValue, "hipErrorInvalidValue"},
                                   std::pair{hipErrorOutOfMemory, "hipErrorOutOfMemory"},
                                   std::pair{hipErrorNotReady, "hipErrorNotReady"},
                                   std::pair{hipErrorIllegalAddress, "hipErrorIllegalAddress"},
                                   std::pair{hipErrorNotSupported, "hipErrorNotSupported"}}) {
    CHECK(std::string{hipGetErrorName(code)} == name);
    CHECK(std::string{hipGetErrorString(code)} != hipGetErrorString(hipErrorUnknown));
  }
}

TEST_CASE("error: a code that HIP does not have is called unknown") {
  CHECK(std::string{hipGetErrorName(not_an_enumerator<hipError_t>(12345))} == "hipErrorUnknown");
}

TEST_CASE("error: the last error stays until it is asked for, whatever succeeds meanwhile") {
  HIPVMM_SKIP_UNDER(success_clears_error);
  CHECK(hipSetDevice(99) == hipErrorInvalidDevice);
  CHECK(hipSetDevice(0) == hipSuccess);
  CHECK(hipPeekAtLastError() == hipErrorInvalidDevice);
  CHECK(hipGetLastError() == hipErrorInvalidDevice);
  CHECK(hipGetLastError() == hipSuccess);
}

TEST_CASE("error: not ready is no error") {
  HIPVMM_SKIP_UNDER(success_clears_error);  // and all else is noted too
  const nothing_left check;
  const stream work;
  {
    const held_streams held;
    REQUIRE(hipLaunchHostFunc(
                work.get(), [](void*) {}, nullptr) == hipSuccess);
    CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
    CHECK(hipPeekAtLastError() == hipSuccess);
  }
  CHECK(work.wait() == hipSuccess);
}

TEST_CASE("error: every thread has a last error of its own") {
  CHECK(hipSetDevice(99) == hipErrorInvalidDevice);
  hipError_t elsewhere = hipErrorUnknown;
  std::thread{[&] { elsewhere = hipGetLastError(); }}.join();
  CHECK(elsewhere == hipSuccess);
  CHECK(hipGetLastError() == hipErrorInvalidDevice);
}
