// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "stand_in.hpp"
#include "support/process/child_process.hpp"

namespace {

constexpr const char* version_mark = "the version is ";

}  // namespace

HIPVMM_CHILD("the version of the linked runtime") {
  int version = 0;
  REQUIRE(hipRuntimeGetVersion(&version) == hipSuccess);
  std::printf("%s%d\n", version_mark, version);
}

namespace hipvmm::test {

std::string linked_profile() {
  const child_result child =
      run_child("the version of the linked runtime", stand_in_settings(1, "none"));
  const std::size_t mark = child.output.find(version_mark);
  CAPTURE(child.output);
  REQUIRE(mark != std::string::npos);
  const int version = std::atoi(child.output.c_str() + mark + std::string{version_mark}.size());
  return "rocm-" + std::to_string(version / 10000000) + "." +
         std::to_string(version / 100000 % 100);
}

}  // namespace hipvmm::test
