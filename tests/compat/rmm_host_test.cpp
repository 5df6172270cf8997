// SPDX-License-Identifier: MIT
#include <hipvmm/compat/rmm.hpp>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include "support/host/foreign_stream.hpp"
#include "support/host/host_test.hpp"

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

TEST_CASE("rmm, " RMM_STAND_IN ": a stream of the program's may end behind a deallocation in it") {
  mr::vmm_pool_resource pool{first_device};
  mr::rmm_resource there{&pool};
  mr::from_rmm_resource back{&there, first_device};
  const stream next{first_device};
  const stale_stream_calls stale;
  for (const std::size_t bytes : {std::size_t{1000}, 8 * MiB}) {
    {
      const foreign_stream ended;
      back.deallocate(ended, back.allocate(ended, bytes), bytes);
    }
    back.deallocate(next, back.allocate(next, 2 * bytes), 2 * bytes);
  }
  if (host_profile() == "cuda-13") CHECK(stale.count() == 0);
}

}  // namespace
}  // namespace hipvmm::test
