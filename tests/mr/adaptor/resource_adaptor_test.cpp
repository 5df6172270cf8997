// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource_adaptor.hpp>

#include <hipvmm/mr/resource/hip_resource.hpp>
#include "support/resource/contract.hpp"
#include "support/resource/passing_adaptor.hpp"
#include "support/test.hpp"

namespace hipvmm::mr {

using test::passing_adaptor;

TEST_CASE("resource_adaptor: keeps the contract when it changes nothing") {
  hip_resource upstream{device_ref{0}};
  passing_adaptor adaptor{&upstream};
  test::check_contract({adaptor, device_ref{0}, 1 * MiB});
}

TEST_CASE("resource_adaptor: answers for the memory of its upstream") {
  hip_resource upstream{device_ref{0}};
  passing_adaptor inner{&upstream};
  const passing_adaptor outer{&inner};
  CHECK(outer.device() == upstream.device());
  CHECK(outer.is_device_accessible());
  CHECK_FALSE(outer.is_host_accessible());
  CHECK(outer.get_upstream_resource() == &inner);
}

TEST_CASE("resource_adaptor: no upstream is refused by the adaptor's name") {
  CHECK_THROWS_WITH_AS(passing_adaptor{nullptr}, doctest::Contains("passing_adaptor"),
                       std::invalid_argument);
}

}  // namespace hipvmm::mr
