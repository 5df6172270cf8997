// SPDX-License-Identifier: MIT
// hip_async_resource: tests of deallocations without a stream that need the host provider.
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "mr/pool/held_while_used.hpp"
#include "mr/pool/waits_for.hpp"
#include "support/blocked_stream.hpp"
#include "support/error_recorder.hpp"
#include "support/host/host_provider.hpp"
#include "support/pools_are_missing.hpp"
#include "support/process/child_process.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("hip_async_resource: a full device waits for what was deallocated without a stream") {
  if (pools_are_missing()) return;
  const std::size_t most = first_device.free_memory() / 16 * 10;
  mr::hip_async_resource resource{first_device};
  const stream other{first_device};
  blocked_stream used{first_device};
  void* const one = resource.allocate_sync(most);
  fill_async(used, one, 1, MiB);
  resource.deallocate_sync(one, most);
  void* again = nullptr;
  CHECK(waits_for(used, [&] { again = resource.allocate(other, most); }));
  CHECK(again != nullptr);
  resource.deallocate(other, again, most);
}

TEST_CASE("hip_async_resource: its end waits for what was deallocated without a stream") {
  if (pools_are_missing()) return;
  auto resource = std::make_unique<mr::hip_async_resource>(first_device);
  blocked_stream used{first_device};
  void* const one = resource->allocate_sync(MiB);
  fill_async(used, one, 1, MiB);
  resource->deallocate_sync(one, MiB);
  CHECK(waits_for(used, [&] { resource.reset(); }));
}

TEST_CASE("hip_async_resource: pairs without a stream beside work use one block") {
  if (pools_are_missing()) return;
  mr::hip_async_resource resource{first_device};
  void* const first = resource.allocate_sync(8 * MiB);
  blocked_stream used{first_device};
  resource.deallocate_sync(first, 8 * MiB);
  // Another size need not wait.
  resource.deallocate_sync(resource.allocate_sync(MiB), MiB);
  CHECK_FALSE(used.is_done());
  void* again = nullptr;
  CHECK(waits_for(used, [&] { again = resource.allocate_sync(8 * MiB); }));
  CHECK(resource.statistics().used_current == 8 * MiB);
  resource.deallocate_sync(again, 8 * MiB);
}

TEST_CASE("hip_async_resource: where rights are not told all devices are waited for") {
  if (pools_are_missing()) return;
  mr::hip_async_resource resource{first_device};
  resource.grant(second_device);
  void* const one = resource.allocate_sync(8 * MiB);
  const stream other{first_device};
  const blocked_stream used{second_device};
  fill_async(used, one, 1, 8 * MiB);
  const error_recorder reported;
  {
    const planned_fault fault{"hipMemPoolGetAccess", 1, hipErrorUnknown};
    resource.deallocate_sync(one, 8 * MiB);
    CHECK(fault.struck());
  }
  CHECK(reported.count() == 1);
  CHECK_FALSE(is_given_again(resource, other, one, 8 * MiB));
}

// Without a link at all, so that they go through the host on AMD's runtime.
HIPVMM_TEST_CASE_IN("hip_resource, hip_async_resource: copies between devices are waited for",
                    {"HIPVMM_HOST_PEERS=none"}) {
  mr::hip_resource plain{first_device};
  mr::hip_resource elsewhere{lonely_device};
  void* const other = elsewhere.allocate_sync(MiB);
  {
    blocked_stream used{lonely_device};
    void* const one = plain.allocate_sync(MiB);
    copy_peer_async(used, other, lonely_device, one, first_device, MiB);
    CHECK(waits_for(used, [&] { plain.deallocate_sync(one, MiB); }));
  }
  if (first_device.supports_memory_pools()) {
    mr::hip_async_resource pooled{first_device};
    void* const one = pooled.allocate_sync(8 * MiB);
    const stream used_next{first_device};
    const blocked_stream used{lonely_device};
    copy_peer_async(used, other, lonely_device, one, first_device, MiB);
    pooled.deallocate_sync(one, 8 * MiB);
    CHECK_FALSE(is_given_again(pooled, used_next, one, 8 * MiB));
  }
  lonely_device.synchronize();
  elsewhere.deallocate_sync(other, MiB);
}

}  // namespace
}  // namespace hipvmm::test
