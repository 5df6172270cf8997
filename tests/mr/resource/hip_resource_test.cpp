// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/hip_resource.hpp>

#include "support/resource/contract.hpp"
#include "support/test.hpp"

namespace hipvmm::mr {

TEST_CASE("hip_resource: keeps the contract of a resource with and without virtual memory") {
  hip_resource resource{device_ref{0}};
  test::check_contract({resource, resource.device(), 1 * MiB});
}

TEST_CASE("hip_resource: two of one device are equal, of two devices not") {
  const hip_resource one{device_ref{0}};
  const hip_resource same{device_ref{0}};
  CHECK(one.is_equal(same));
  if (device_count() > 1) CHECK_FALSE(one.is_equal(hip_resource{device_ref{1}}));
}

TEST_CASE("hip_resource: a device that does not exist is refused") {
  CHECK_THROWS_AS(hip_resource{device_ref{-1}}, std::invalid_argument);
}

}  // namespace hipvmm::mr
