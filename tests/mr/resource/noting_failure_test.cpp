// SPDX-License-Identifier: MIT
// The state after a lack of the host's memory in resources that note their allocations.
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include "support/host/allocation_failure.hpp"
#include "support/resource/paper_resource.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// Fails each allocation of the host in turn: a request that is refused holds nothing.
template <typename Resource>
void verify_nothing_is_held() {
  bool refused_behind_upstream = false;
  for (std::uint64_t nth = 1; nth < 1000; ++nth) {
    INFO("allocation " << nth << " of the host failing");
    paper_resource upstream;
    Resource resource{&upstream};
    void* given = nullptr;
    bool struck = false;
    {
      const allocation_failure failure{nth};
      try {
        given = resource.allocate_sync(64 * KiB);
      } catch (const std::bad_alloc&) {
      }
      struck = failure.struck();
    }
    if (given != nullptr) {
      resource.deallocate_sync(given, 64 * KiB);
    } else if (upstream.last_bytes() != 0) {
      refused_behind_upstream = true;
    }
    CHECK(upstream.bytes_out() == 0);
    if (!struck) {
      CHECK(refused_behind_upstream);
      return;
    }
  }
  FAIL("more allocations than any request makes");
}

TEST_CASE("binning_resource: a block that cannot be noted goes back to its owner") {
  verify_nothing_is_held<mr::binning_resource>();
}

TEST_CASE("tracking_resource_adaptor: a block that cannot be noted goes back to the upstream") {
  verify_nothing_is_held<mr::tracking_resource_adaptor>();
}

}  // namespace
}  // namespace hipvmm::test
