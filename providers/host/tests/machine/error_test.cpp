// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <thread>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

TEST_CASE("error: every thread has a last error of its own") {
  CHECK(hipSetDevice(99) == hipErrorInvalidDevice);
  hipError_t elsewhere = hipErrorUnknown;
  std::thread{[&] { elsewhere = hipGetLastError(); }}.join();
  CHECK(elsewhere == hipSuccess);
  CHECK(hipGetLastError() == hipErrorInvalidDevice);
}
