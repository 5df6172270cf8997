// SPDX-License-Identifier: MIT
// Memory that peers may use makes no primary context on them: on CUDA each takes hundreds of MiB.
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/vmm/access.hpp>
#include "mr/mr_test.hpp"
#include "support/host/device_contexts.hpp"

namespace hipvmm::test {
namespace {

mr::pool_options for_all_peers() {
  mr::pool_options options{.access = all_reachable_peers(first_device)};
  REQUIRE(options.access.find(second_device).has_value());
  return options;
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: peers with access that nobody uses get no context",
                    {"HIPVMM_HOST_PROFILE=cuda-13", "HIPVMM_TESTS_PROBE_LATER=1"}) {
  {
    mr::vmm_pool_resource pool{first_device, for_all_peers()};
    const stream used{first_device};
    const stream other{first_device};
    pool.deallocate(used, pool.allocate(used, 3 * MiB), 3 * MiB);
    pool.deallocate(other, pool.allocate(other, 3 * MiB), 3 * MiB);
    pool.deallocate(stream_ref::legacy_default(),
                    pool.allocate(stream_ref::legacy_default(), 3 * MiB), 3 * MiB);
    pool.deallocate_sync(pool.allocate_sync(3 * MiB), 3 * MiB);
    void* const left = pool.allocate(used, 5 * MiB);
    used.synchronize();
    hipStream_t ended = nullptr;
    REQUIRE(hipStreamCreate(&ended) == hipSuccess);
    REQUIRE(hipStreamDestroy(ended) == hipSuccess);
    pool.deallocate(stream_ref{ended}, left, 5 * MiB);
    // Of which device that stream is, is asked by events of each.
    const stream far{device_ref{2}};
    void* const passed_on = pool.allocate(used, 3 * MiB);
    used.synchronize();
    pool.deallocate(far, passed_on, 3 * MiB);
    static_cast<void>(pool.trim_to(0));
    drain_retired_memory();
    CHECK_FALSE(has_primary_context(second_device));
  }
  CHECK_FALSE(has_primary_context(second_device));
}

HIPVMM_TEST_CASE_IN("deallocate_sync: waits for no device that nobody uses",
                    {"HIPVMM_HOST_PROFILE=cuda-13", "HIPVMM_TESTS_PROBE_LATER=1"}) {
  mr::hip_resource device{first_device};
  mr::pinned_host_resource pinned;
  for (mr::memory_resource* const each :
       {static_cast<mr::memory_resource*>(&device), static_cast<mr::memory_resource*>(&pinned)}) {
    each->deallocate_sync(each->allocate_sync(MiB), MiB);
    const stream used{first_device};
    each->deallocate(used, each->allocate(used, MiB), MiB);
  }
  CHECK_FALSE(has_primary_context(second_device));
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: a peer that is used is waited for",
                    {"HIPVMM_HOST_PROFILE=cuda-13", "HIPVMM_TESTS_PROBE_LATER=1"}) {
  mr::vmm_pool_resource pool{first_device, for_all_peers()};
  blocked_stream busy{second_device};
  CHECK(has_primary_context(second_device));
  pool.deallocate_sync(pool.allocate_sync(32 * MiB), 32 * MiB);
  const auto is_returned = [&] {
    static_cast<void>(pool.trim_to(0));
    return pool.statistics().reserved_current == 0;
  };
  CHECK_FALSE(happens(is_returned));
  busy.release();
  CHECK(comes_true(is_returned));
}

}  // namespace
}  // namespace hipvmm::test
