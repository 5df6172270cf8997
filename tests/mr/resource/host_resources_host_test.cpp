// SPDX-License-Identifier: MIT
// Tests that need the host provider, of the resources whose memory the host may use.
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/system_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include "mr/adaptor/adaptor_kinds.hpp"
#include "mr/mr_test.hpp"
#include "support/host/host_test.hpp"
#include "support/is_ready.hpp"

namespace hipvmm::test {
namespace {

// On a device that is not the current one, so that switching devices is swept as well.
constexpr device_ref other_device{1};

void use(mr::memory_resource& resource) {
  const stream used{other_device};
  void* const ordered = resource.allocate(used, 5000);
  resource.deallocate(used, ordered, 5000);
  resource.deallocate_sync(resource.allocate_sync(5000), 5000);
}

}  // namespace

TEST_CASE("host resource: each HIP call that fails leaves nothing behind") {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  mr::managed_resource managed{other_device};
#pragma GCC diagnostic pop
  mr::pinned_host_resource pinned;
  mr::managed_resource managed_of_none;
  fault_sweep{"managed_resource of a device"}.run([&] { use(managed); });
  fault_sweep{"managed_resource"}.run([&] { use(managed_of_none); });
  fault_sweep{"pinned_host_resource"}.run([&] { use(pinned); });
}

TEST_CASE("managed_resource: retired memory is waited for before a refusal") {
  drain_retired_memory();
  mr::managed_resource managed;
  blocked_stream busy{device_ref{0}};
  {
    growable_device_vector<std::byte> ends{device_ref{0}};
    ends.resize(MiB, busy);
  }
  const planned_fault fault{"hipMallocManaged", 1, hipErrorOutOfMemory};
  auto allocated = std::async(std::launch::async, [&] { return managed.allocate_sync(100); });
  while (!fault.struck()) std::this_thread::yield();
  busy.release();
  void* memory = nullptr;
  CHECK_NOTHROW(memory = allocated.get());
  if (memory != nullptr) managed.deallocate_sync(memory, 100);
}

TEST_CASE("host resource: what comes back in a stream stays until the stream has passed") {
  mr::managed_resource managed;
  mr::new_delete_resource plain;
  mr::pinned_host_resource pinned;
  for (mr::memory_resource* resource :
       std::initializer_list<mr::memory_resource*>{&managed, &plain, &pinned}) {
    blocked_stream busy{other_device};
    void* const block = resource->allocate(busy, 100);
    auto back = std::async(std::launch::async, [&] { resource->deallocate(busy, block, 100); });
    CHECK_FALSE(is_ready(back));
    busy.release();
    back.get();
  }
}

TEST_CASE("host resource: what comes back in a captured stream stays allocated and is told") {
  mr::managed_resource managed;
  mr::new_delete_resource plain;
  mr::pinned_host_resource pinned;
  for (mr::memory_resource* resource :
       std::initializer_list<mr::memory_resource*>{&managed, &plain, &pinned}) {
    const stream captured{device_ref{0}};
    void* const block = resource->allocate_sync(100);
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
    error_recorder reported;
    resource->deallocate(captured, block, 100);
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors()[0].message.find("stays allocated") != std::string::npos);
    end_capture(captured.get());
    resource->deallocate_sync(block, 100);
  }
}

TEST_CASE("host resource: a wait that fails is told once through every adaptor") {
  mr::managed_resource managed;
  HIPVMM_SKIP_IF(!other_device.supports_concurrent_managed_access(),
                 "managed memory does not move on device 1");
  const stream used{other_device};
  for (const adaptor_kind& kind : adaptor_kinds) {
    CAPTURE(kind.name);
    const std::uint64_t before = live_objects().managed_allocations;
    error_recorder reported;
    {
      mr::statistics_resource_adaptor below{&managed};
      const owned_resource adaptor = kind.over(&below);
      void* const block = adaptor->allocate(used, 5000);
      {
        const planned_fault fault{"hipStreamSynchronize", 1, hipErrorUnknown};
        adaptor->deallocate(used, block, 5000);
        CHECK(fault.struck());
      }
      // Behind all devices instead.
      CHECK(live_objects().managed_allocations == before);
      CHECK(below.get_allocations_counter().value == 0);
      adaptor->deallocate(used, adaptor->allocate(used, 5000), 5000);
    }
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors()[0].call == "hipStreamSynchronize");
    CHECK(live_objects().managed_allocations == before);
  }
}

TEST_CASE(
    "host resource: where the wait for its stream fails, memory comes back behind all devices") {
  mr::managed_resource managed;
  mr::pinned_host_resource pinned;
  for (mr::memory_resource* resource :
       std::initializer_list<mr::memory_resource*>{&managed, &pinned}) {
    const hipvmm_host_counters before = live_objects();
    error_recorder reported;
    {
      const stream used{device_ref{0}};
      void* const block = resource->allocate(used, 100);
      const planned_fault fault{"hipStreamSynchronize", 1, hipErrorUnknown};
      resource->deallocate(used, block, 100);
      CHECK(reported.count() == 1);
    }
    CHECK(live_objects() == before);
    auto ended = std::make_unique<stream>(device_ref{0});
    const stream_ref gone{*ended};
    void* const block = resource->allocate(gone, 100);
    ended.reset();
    resource->deallocate(gone, block, 100);
    CHECK(reported.count() == 2);
    CHECK(live_objects() == before);
  }
}

TEST_CASE("host resource: what no wait succeeds for stays allocated and is told") {
  mr::pinned_host_resource pinned;
  const stream used{device_ref{0}};
  void* const block = pinned.allocate(used, 100);
  error_recorder reported;
  REQUIRE(hipvmm_host_set_faults("hipStreamSynchronize error=hipErrorUnknown;"
                                 "hipMalloc error=hipErrorUnknown;"
                                 "hipDeviceSynchronize error=hipErrorUnknown") == nullptr);
  pinned.deallocate(used, block, 100);
  hipvmm_host_set_faults(nullptr);
  REQUIRE(reported.count() == 2);
  CHECK(reported.errors()[1].message.find("stays allocated") != std::string::npos);
  pinned.deallocate_sync(block, 100);
  CHECK(reported.count() == 2);
}

TEST_CASE("sam_headroom_resource: leaves so much of the device to others") {
  constexpr device_ref device{0};
  HIPVMM_SKIP_IF(!device.supports_pageable_access(),
                 "device 0 reaches no ordinary memory of the host");
  constexpr std::size_t bytes = MiB;
  const std::size_t free = device.free_memory();
  struct split {
    std::size_t headroom;
    std::uint64_t parts;  // of which one or two are advised about
  };
  for (const split each : {split{0, 1}, split{free, 1}, split{free + 1, 1}, split{free - 1, 1},
                           split{free - bytes, 1}, split{free - bytes / 2, 2}}) {
    CAPTURE(each.headroom);
    mr::sam_headroom_resource resource{device, each.headroom};
    CHECK(resource.headroom() == each.headroom);
    const call_counter advice{"hipMemAdvise"};
    void* const block = resource.allocate_sync(bytes - 1);
    CHECK(advice.count() == each.parts);
    resource.deallocate_sync(block, bytes - 1);
    CHECK(advice.count() == each.parts + 1);
  }
}

TEST_CASE("sam_headroom_resource: each HIP call that fails leaves nothing behind") {
  HIPVMM_SKIP_IF(!other_device.supports_pageable_access(),
                 "device 1 reaches no ordinary memory of the host");
  mr::sam_headroom_resource resource{other_device, other_device.free_memory() - 4096};
  fault_sweep{"an allocation in two parts"}.run(
      [&] { resource.deallocate_sync(resource.allocate_sync(8192), 8192); });
}

TEST_CASE("hip_resource: what a peer's stream frees stays until that stream has passed") {
  const device_ref owner{0};
  const device_ref peer{1};
  peer.enable_peer_access(owner);
  mr::hip_resource resource{owner};
  for (const bool wait_fails : {false, true}) {
    CAPTURE(wait_fails);
    blocked_stream busy{peer};
    void* const block = resource.allocate(busy, MiB);
    fill_async(busy, block, 7, MiB);
    bool passed = false;
    REQUIRE(hipLaunchHostFunc(
                stream_ref{busy}.get(), [](void* flag) { *static_cast<bool*>(flag) = true; },
                &passed) == hipSuccess);
    const error_recorder reported;
    std::optional<planned_fault> fault;
    if (wait_fails) fault.emplace("hipStreamSynchronize", 1, hipErrorUnknown);
    const calls_of device_waits{device_waiting_functions};
    auto back = std::async(std::launch::async, [&] { resource.deallocate(busy, block, MiB); });
    CHECK_FALSE(is_ready(back));
    busy.release();
    back.get();
    CHECK(passed);
    CHECK(reported.count() == (wait_fails ? 1 : 0));
    // All devices instead, because the stream may be of any; and the hipFree of the block.
    CHECK(device_waits.count() ==
          1 + (wait_fails ? static_cast<std::uint64_t>(device_count()) : 0));
  }
}

}  // namespace hipvmm::test
