// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/hip_resource.hpp>

#include <hipvmm/testing/resource_contract.hpp>
#include "support/test.hpp"

namespace hipvmm::mr {

TEST_CASE("hip_resource: keeps the contract of a resource with and without virtual memory") {
  hip_resource resource{device_ref{0}};
  const contract_subject subject{resource, resource.device(), 1 * MiB};
  for (const contract_rule& rule : resource_contract()) {
    SUBCASE(rule.name) { CHECK_NOTHROW(rule.verify(subject)); }
  }
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
