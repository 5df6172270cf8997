// SPDX-License-Identifier: MIT
#include <hipvmm/compat/rmm.hpp>

#include <doctest/doctest.h>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include "support/devices.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("rmm, " RMM_STAND_IN
          ": calls that fail on the way to RMM and back leave nothing behind") {
  fault_sweep{"from_rmm_resource"}.run([] {
    mr::hip_resource memory{first_device};
    mr::rmm_resource there{&memory};
    mr::from_rmm_resource back{&there, first_device};
    const stream used{first_device};
    back.deallocate(used, back.allocate(used, 1000), 1000);
    back.deallocate_sync(back.allocate_sync(1000), 1000);
  });
}

}  // namespace
}  // namespace hipvmm::test
