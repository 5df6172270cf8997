// SPDX-License-Identifier: MIT
#include <hipvmm/core/error.hpp>

#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/check.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

HIPVMM_CHILD("an event that cannot be destroyed") {
  auto value = event{};
  const planned_fault fault{"hipEventDestroy", 1, hipErrorUnknown};
  std::fputs("before\n", stderr);
  value = event{};
  std::fputs("after\n", stderr);
  CHECK(fault.struck());
}

TEST_CASE("error handler: the default writes one line that names call, error and code") {
  const child_result child = run_child("an event that cannot be destroyed");
  REQUIRE(passed(child));
  const std::size_t start = child.output.find("before\n") + 7;
  const std::string line = child.output.substr(start, child.output.find("after\n") - start);
  CAPTURE(line);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  CHECK(line.find("hipEventDestroy") != std::string::npos);
  CHECK(line.find("hipErrorUnknown") != std::string::npos);
  CHECK(line.find("999") != std::string::npos);
}

HIPVMM_CHILD("a warning and a report of the library's own") {
  detail::warn("the debug log", "it takes no more");
  detail::report_exceptions([] { throw std::runtime_error{"a block was not taken back"}; });
}

TEST_CASE("error handler: the default says that something failed of calls of HIP only") {
  const child_result child = run_child("a warning and a report of the library's own");
  REQUIRE(passed(child));
  CAPTURE(child.output);
  CHECK(child.output.find("hipvmm: the debug log: it takes no more\n") != std::string::npos);
  CHECK(child.output.find("hipvmm: a block was not taken back\n") != std::string::npos);
  CHECK(child.output.find("failed where") == std::string::npos);
}

TEST_CASE("address_text: addresses are hexadecimal, null too") {
  CHECK(detail::address_text(reinterpret_cast<const void*>(std::uintptr_t{0x7f12c0000000})) ==
        "0x7f12c0000000");
  CHECK(detail::address_text(nullptr) == "0x0");
}

TEST_CASE("hip_error: a failure that was thrown does not surface as HIP's last error") {
  const planned_fault fault{"hipEventCreateWithFlags", 1, hipErrorUnknown};
  CHECK_THROWS_AS(event{}, hip_error);
  CHECK(hipGetLastError() == hipSuccess);
}

TEST_CASE("is_done: that work is not done does not surface as HIP's last error") {
  const stream stream;
  event mark;
  const held_streams held;
  REQUIRE(hipLaunchHostFunc(
              stream.get(), [](void*) {}, nullptr) == hipSuccess);
  mark.record(stream);
  CHECK_FALSE(stream.is_done());
  CHECK(hipGetLastError() == hipSuccess);
  CHECK_FALSE(mark.is_done());
  CHECK(hipGetLastError() == hipSuccess);
}

TEST_CASE("is_done: the application's own last error stays where HIP keeps it") {
  const stream stream;
  const held_streams held;
  REQUIRE(hipLaunchHostFunc(
              stream.get(), [](void*) {}, nullptr) == hipSuccess);
  int device = 0;
  REQUIRE(hipSetDevice(99) == hipErrorInvalidDevice);
  REQUIRE(hipGetDevice(&device) == hipSuccess);
  const hipError_t kept = hipPeekAtLastError();  // none before ROCm 7.0
  CHECK_FALSE(stream.is_done());
  CHECK(hipGetLastError() == kept);
}

TEST_CASE("hip_error: names the HIP function and the library's source that called it") {
  const planned_fault fault{"hipEventCreateWithFlags", 1, hipErrorUnknown};
  const auto error = thrown_by<hip_error>([&] { event value; });
  CHECK(error.code() == hipErrorUnknown);
  CHECK(std::string{error.call()} == "hipEventCreateWithFlags");
  CHECK(std::string{error.file()}.find("event.cpp") != std::string::npos);
  CHECK(error.line() > 0);
}

}  // namespace
}  // namespace hipvmm::test
