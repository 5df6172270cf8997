// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_device_vector.hpp>

#include <doctest/doctest.h>

#include <hipvmm/core/error.hpp>
#include "support/devices.hpp"
#include "support/process/child_process.hpp"

namespace hipvmm::test {
namespace {

HIPVMM_TEST_CASE_IN(
    "without virtual memory: growable_device_vector that must not do without says why",
    {"HIPVMM_HOST_PROFILE=rocm-5.7"}) {
  growth_options options;
  options.fallback = without_vmm::refuse;
  CHECK_THROWS_WITH_AS((growable_device_vector<int>{first_device, options}),
                       doctest::Contains("hipDeviceAttributeVirtualMemoryManagementSupported is 0"),
                       unsupported);
}

}  // namespace
}  // namespace hipvmm::test
