// SPDX-License-Identifier: MIT
// Tests of deallocations without a stream that need the host provider: the devices waited for, and
// memory that no call can wait for.
#include <hipvmm/compat/std_pmr.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/system_resource.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "mr/mr_test.hpp"
#include "mr/pool/waits_for.hpp"
#include "runtime/peer_copies.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("hip_resource: memory without a stream waits for all devices that reach it") {
  mr::hip_resource resource{first_device};
  second_device.enable_peer_access(first_device);
  for (const device_ref device : {first_device, second_device}) {
    CAPTURE(device.ordinal());
    blocked_stream used{device};
    void* const one = resource.allocate_sync(MiB);
    fill_async(used, one, 1, MiB);
    CHECK(waits_for(used, [&] { resource.deallocate_sync(one, MiB); }));
  }
}

TEST_CASE("hip_resource: memory without a stream waits for no device that cannot use it") {
  const auto copied = hipvmm::detail::next_copied_with(first_device, lonely_device.ordinal() - 1);
  HIPVMM_SKIP_IF(copied && *copied == lonely_device,
                 "another case has copied between devices 0 and 2");
  mr::hip_resource resource{first_device};
  void* const one = resource.allocate_sync(MiB);
  blocked_stream unrelated{lonely_device};
  // A wait for it would never end.
  resource.deallocate_sync(one, MiB);
  CHECK_FALSE(unrelated.is_done());
}

TEST_CASE("hip_resource: memory whose peers cannot be waited for is freed when they can") {
  mr::hip_resource resource{first_device};
  drain_retired_memory();
  const hipvmm_host_counters before = live_objects();
  void* const one = resource.allocate_sync(MiB);
  blocked_stream used{second_device};
  const error_recorder reported;
  {
    // As beside a capture, on a full device.
    const planned_faults faults{
        "hipMalloc error=hipErrorOutOfMemory; hipHostMalloc error=hipErrorOutOfMemory; "
        "hipDeviceSynchronize error=hipErrorStreamCaptureUnsupported"};
    resource.deallocate_sync(one, MiB);
    // Before the thread of retired memory can wait, which takes an allocation of its own.
    CHECK(live_objects().allocations == before.allocations + 1);
  }
  CHECK(reported.count() == 1);
  used.release();
  drain_retired_memory();
  CHECK(live_objects().allocations == before.allocations);
}

TEST_CASE("hip_resource: memory whose stream cannot be waited for is freed when it can") {
  mr::hip_resource resource{first_device};
  drain_retired_memory();
  const hipvmm_host_counters before = live_objects();
  blocked_stream used{second_device};
  void* const one = resource.allocate(used, MiB);
  const error_recorder reported;
  {
    const planned_faults faults{
        "hipMalloc error=hipErrorOutOfMemory; hipHostMalloc error=hipErrorOutOfMemory; "
        "hipStreamSynchronize error=hipErrorUnknown; hipDeviceSynchronize error=hipErrorUnknown"};
    resource.deallocate(used, one, MiB);
    CHECK(live_objects().allocations == before.allocations + 1);
  }
  CHECK(reported.count() != 0);
  used.release();
  drain_retired_memory();
  CHECK(live_objects().allocations == before.allocations);
}

TEST_CASE("host resource: memory without a stream is freed behind the work of all devices") {
  mr::managed_resource managed;
  mr::pinned_host_resource pinned;
  struct subject {
    mr::memory_resource* resource;
    const char* free;
  };
  for (const subject each : {subject{&managed, "hipFree"}, subject{&pinned, "hipHostFree"}}) {
    CAPTURE(each.free);
    for (const device_ref device : {first_device, second_device, lonely_device}) {
      CAPTURE(device.ordinal());
      blocked_stream used{device};
      void* const one = each.resource->allocate_sync(100);
      const calls_of waits{device_waiting_functions};
      const call_counter frees{each.free};
      CHECK(waits_for(used, [&] { each.resource->deallocate_sync(one, 100); }));
      // AMD's hipFree and hipHostFree wait for one device, and which one the resource cannot know.
      CHECK(waits.count() >= static_cast<std::uint64_t>(device_count()));
      CHECK(frees.count() >= 1);
    }
  }
}

TEST_CASE("host resource: memory without a stream stays allocated where no wait succeeds") {
  mr::managed_resource managed;
  mr::pinned_host_resource pinned;
  for (mr::memory_resource* const resource :
       std::initializer_list<mr::memory_resource*>{&managed, &pinned})
    check_kept_without_wait(*resource, 100, live_objects);
}

TEST_CASE("host resource: memory without a stream is freed where the runtime has ended") {
  mr::pinned_host_resource pinned;
  const hipvmm_host_counters before = live_objects();
  void* const one = pinned.allocate_sync(100);
  const error_recorder reported;
  const planned_faults faults{
      "hipMalloc error=hipErrorDeinitialized; hipDeviceSynchronize error=hipErrorDeinitialized"};
  pinned.deallocate_sync(one, 100);
  CHECK(reported.count() == 0);
  CHECK(live_objects() == before);
}

TEST_CASE("std_pmr_adaptor: what it deallocates waits for devices as its upstream does") {
  mr::pinned_host_resource pinned;
  mr::std_pmr_adaptor adapted{&pinned};
  const device_allocation source{second_device, 100};
  blocked_stream used{second_device};
  void* const one = adapted.allocate(100);
  // Not filled: AMD's runtime 5.7.1 and 6.4.3 fill pinned memory on the caller's thread.
  copy_async(used, one, source.get(), 100);
  CHECK(waits_for(used, [&] { adapted.deallocate(one, 100); }));
}

TEST_CASE("new_delete_resource: waits without a stream for no device that cannot reach it") {
  HIPVMM_SKIP_IF(first_device.supports_pageable_access(),
                 "device 0 reaches all memory of the host");
  mr::new_delete_resource plain;
  void* const one = plain.allocate_sync(100);
  blocked_stream used{first_device};
  // A wait for it would never end.
  plain.deallocate_sync(one, 100);
  CHECK_FALSE(used.is_done());
}

TEST_CASE("system_resource: memory without a stream waits for all devices that reach it") {
  HIPVMM_SKIP_IF(!first_device.supports_pageable_access(),
                 "device 0 reaches no ordinary memory of the host");
  mr::system_resource system{first_device};
  mr::new_delete_resource equal;
  mr::sam_headroom_resource advised{first_device, 0};
  for (mr::memory_resource* const resource :
       std::initializer_list<mr::memory_resource*>{&system, &equal, &advised}) {
    for (const device_ref device : {first_device, second_device}) {
      CAPTURE(device.ordinal());
      blocked_stream used{device};
      void* const one = resource->allocate_sync(5000);
      fill_async(used, one, 1, 5000);
      CHECK(waits_for(used, [&] { resource->deallocate_sync(one, 5000); }));
    }
  }
}

TEST_CASE("system_resource: memory without a stream stays allocated where no wait succeeds") {
  HIPVMM_SKIP_IF(!first_device.supports_pageable_access(),
                 "device 0 reaches no ordinary memory of the host");
  mr::system_resource system{first_device};
  mr::sam_headroom_resource advised{first_device, 0};
  for (mr::memory_resource* const resource :
       std::initializer_list<mr::memory_resource*>{&system, &advised}) {
    void* const one = resource->allocate_sync(5000);
    const error_recorder reported;
    {
      const planned_faults faults{no_waits};
      resource->deallocate_sync(one, 5000);
    }
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors()[0].message.find("stays allocated") != std::string::npos);
    resource->deallocate_sync(one, 5000);
    CHECK(reported.count() == 1);
  }
}

TEST_CASE("sam_headroom_resource: memory that came back in a stream waits for that stream alone") {
  HIPVMM_SKIP_IF(!first_device.supports_pageable_access(),
                 "device 0 reaches no ordinary memory of the host");
  mr::sam_headroom_resource advised{first_device, 0};
  const stream used{first_device};
  void* const one = advised.allocate(used, 5000);
  blocked_stream unrelated{first_device};
  // A wait for it would never end.
  advised.deallocate(used, one, 5000);
  CHECK_FALSE(unrelated.is_done());
}

}  // namespace
}  // namespace hipvmm::test
