// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <string>

#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

TEST_CASE("error: has HIP's name and text") {
  const struct {
    hipError_t code;
    const char* name;
    const char* text;
  } rows[] = {
      {hipSuccess, "hipSuccess", "no error"},
      {hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
      {hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
      {hipErrorNoDevice, "hipErrorNoDevice", "no ROCm-capable device is detected"},
      {hipErrorInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
      {hipErrorInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
      {hipErrorNotReady, "hipErrorNotReady", "device not ready"},
      {hipErrorIllegalAddress, "hipErrorIllegalAddress",
       "an illegal memory access was encountered"},
      {hipErrorPeerAccessNotEnabled, "hipErrorPeerAccessNotEnabled",
       "peer access has not been enabled"},
      {hipErrorNotSupported, "hipErrorNotSupported", "operation not supported"},
      {hipErrorUnknown, "hipErrorUnknown", "unknown error"},
  };
  for (const auto& row : rows) {
    CHECK(std::string{hipGetErrorName(row.code)} == row.name);
    CHECK(std::string{hipGetErrorString(row.code)} == row.text);
  }
  CHECK(std::string{hipGetErrorName(no_such<hipError_t>(12345))} == "hipErrorUnknown");
}

TEST_CASE("error: the last one is the last failure, told once") {
  static_cast<void>(hipGetLastError());
  CHECK(hipFree(reinterpret_cast<void*>(8)) == hipErrorInvalidValue);
  int count = 0;
  CHECK(hipGetDeviceCount(&count) == hipSuccess);
  CHECK(hipPeekAtLastError() == hipErrorInvalidValue);
  CHECK(hipGetLastError() == hipErrorInvalidValue);
  CHECK(hipGetLastError() == hipSuccess);
}

TEST_CASE("error: that something is not ready is not a failure to remember") {
  const own_stream stream{hipStreamNonBlocking};
  held back{stream.get()};
  static_cast<void>(hipGetLastError());
  CHECK(hipStreamQuery(stream.get()) == hipErrorNotReady);
  CHECK(hipPeekAtLastError() == hipSuccess);
}
