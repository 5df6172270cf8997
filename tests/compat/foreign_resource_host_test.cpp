// SPDX-License-Identifier: MIT
#include <hipvmm/compat/foreign_resource.hpp>

#include "mr/pool/waits_for.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

/// One block, whose deallocation waits for nothing, as a cache's.
class one_block final : public mr::foreign_resource {
 public:
  one_block() : foreign_resource{"one_block", mr::foreign_reach::device, first_device} {}
  int allocations = 0;
  std::atomic<int> deallocations{0};

 private:
  void* foreign_allocate(stream_ref, std::size_t, std::size_t) override {
    ++allocations;
    return block_;
  }
  void foreign_deallocate(stream_ref, void*, std::size_t, std::size_t) override { ++deallocations; }

  alignas(256) char block_[256] = {};
};

TEST_CASE("foreign_resource: deallocate_sync waits for the work of every device") {
  one_block resource;
  for (const device_ref device : {first_device, second_device, lonely_device}) {
    CAPTURE(device.ordinal());
    void* const one = resource.allocate_sync(100);
    blocked_stream used{device};
    CHECK(waits_for(used, [&] { resource.deallocate_sync(one, 100); }));
  }
  CHECK(resource.deallocations == 3);
}

TEST_CASE("foreign_resource: memory stays allocated where no wait succeeds") {
  one_block resource;
  check_kept_without_wait(resource, 100, [&] { return resource.deallocations.load(); });
}

TEST_CASE("foreign_resource: calls that fail leave nothing allocated") {
  one_block resource;
  const auto live = [&] { return resource.allocations - resource.deallocations; };
  void* one = nullptr;
  fault_sweep{"foreign_resource"}.run([] { return 0; },
                                      [&](int) { one = resource.allocate_sync(100); },
                                      [&](int) { CHECK(live() == 0); },
                                      [&](int) {
                                        CHECK(live() == 1);
                                        resource.deallocate_sync(one, 100);
                                      });
}

}  // namespace
}  // namespace hipvmm::test
