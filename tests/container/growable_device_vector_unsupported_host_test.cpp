// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_device_vector.hpp>

#include <doctest/doctest.h>

#include <hipvmm/core/error.hpp>
#include "support/child_process.hpp"
#include "support/devices.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("without virtual memory: growable_device_vector throws unsupported and says why") {
  if (first_device.supports_virtual_memory()) {
    const child_result child = run_case_in_child(
        "without virtual memory: growable_device_vector throws unsupported and says why",
        {"HIPVMM_HOST_PROFILE=rocm-5.7"});
    CHECK_MESSAGE(passed(child), child.output);
    return;
  }
  CHECK_THROWS_WITH_AS(growable_device_vector<int>{}.resize_uninitialized(1),
                       doctest::Contains("device 0 offers no virtual memory management"),
                       unsupported);
}

}  // namespace
}  // namespace hipvmm::test
