// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/hip_async_resource.hpp>
#include "support/fault_sweep.hpp"

namespace hipvmm::test {

TEST_CASE("hip_async_resource: each HIP call that fails leaves nothing behind") {
  if (!device_ref{0}.supports_memory_pools()) {
    MESSAGE("skipped: device 0 offers no stream-ordered pools");
    return;
  }
  fault_sweep{"a resource, a block in a stream and one without"}.run([] {
    mr::hip_async_resource resource{device_ref{0}};
    const stream used{device_ref{0}};
    void* const ordered = resource.allocate(used, MiB);
    resource.deallocate(used, ordered, MiB);
    resource.deallocate_sync(resource.allocate_sync(MiB), MiB);
    static_cast<void>(resource.statistics());
    device_ref{0}.synchronize();
  });
}

}  // namespace hipvmm::test
