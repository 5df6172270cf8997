// SPDX-License-Identifier: MIT
// Memory that is deallocated without a stream is nobody's before all work that may use it is over.
#include <hipvmm/compat/hipmm.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include "mr/adaptor/adaptor_kinds.hpp"
#include "mr/mr_test.hpp"
#include "mr/pool/held_while_used.hpp"
#include "support/device_bytes.hpp"
#include "support/pools_are_missing.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

/// As check_held_while_used, for a resource whose every deallocation goes to one that orders it.
void check_passes_on(memory_resource& resource, std::size_t bytes) {
  // On AMD's runtime an unmap of an earlier pool's memory waits for the stream that is held below,
  // and holds up each map meanwhile.
  drain_retired_memory();
  // Memory for both blocks, because on CUDA hipMallocManaged waits while another thread waits by
  // hipFree.
  const stream used{first_device};
  void* const first = resource.allocate(used, bytes);
  void* const second = resource.allocate(used, bytes);
  resource.deallocate(used, first, bytes);
  resource.deallocate(used, second, bytes);
  used.synchronize();
  void* const one = resource.allocate_sync(bytes);
  test::check_held_while_used(resource, one, bytes, [&] { resource.deallocate_sync(one, bytes); });
}

}  // namespace

TEST_CASE("hip_async_resource: memory without a stream is nobody's before its last use is over") {
  if (test::pools_are_missing()) return;
  hip_async_resource resource{first_device};
  void* const one = resource.allocate_sync(8 * MiB);
  test::check_held_while_used(resource, one, 8 * MiB, [&] {
    resource.deallocate_sync(one, 8 * MiB);
    CHECK(resource.statistics().used_current == 0);
  });
  const stream used{first_device};
  void* const ordered = resource.allocate(used, 8 * MiB);
  used.synchronize();
  test::check_held_while_used(resource, ordered, 8 * MiB,
                              [&] { resource.deallocate_sync(ordered, 8 * MiB); });
}

TEST_CASE("hip_async_resource: a peer's work keeps memory that is deallocated without a stream") {
  if (test::pools_are_missing()) return;
  HIPVMM_REQUIRE_DEVICE(peer, test::peer_of(first_device), "two devices that reach each other");
  hip_async_resource resource{first_device};
  resource.grant(peer);
  const stream other{first_device};
  void* const one = resource.allocate_sync(8 * MiB);
  {
    const test::blocked_stream used{peer};
    fill_async(used, one, 1, 8 * MiB);
    resource.deallocate_sync(one, 8 * MiB);
    CHECK_FALSE(test::is_given_again(resource, other, one, 8 * MiB));
  }
  other.synchronize();
}

TEST_CASE("hip_async_resource: two views of a pool know what either has deallocated") {
  if (test::pools_are_missing()) return;
  hip_async_resource owner{first_device};
  hip_async_resource view{first_device, owner.get()};
  void* const one = owner.allocate_sync(8 * MiB);
  test::check_held_while_used(view, one, 8 * MiB, [&] { owner.deallocate_sync(one, 8 * MiB); });
}

TEST_CASE("hip_async_resource: pairs without a stream use one block again and again") {
  if (test::pools_are_missing()) return;
  hip_async_resource resource{first_device};
  for (int i = 0; i < 100; ++i) resource.deallocate_sync(resource.allocate_sync(8 * MiB), 8 * MiB);
  CHECK(resource.statistics().reserved_high <= 64 * MiB);
}

TEST_CASE("hip_async_resource: threads that name no stream keep their bytes") {
  if (test::pools_are_missing()) return;
  hip_async_resource resource{first_device};
  const auto work = [&resource](int thread) {
    const stream used{first_device};
    for (int round = 0; round < 40; ++round) {
      const std::size_t bytes = KiB * static_cast<std::size_t>(64 + 16 * (round % 3));
      const auto value = static_cast<unsigned char>(1 + thread * 40 + round);
      void* const one =
          round % 2 == 0 ? resource.allocate_sync(bytes) : resource.allocate(used, bytes);
      fill_async(used, one, value, bytes);
      // Each second one goes back while the fill may still run.
      if (round % 4 >= 2)
        CHECK(test::read_bytes(used, one, bytes) == test::byte_vector(bytes, value));
      if (round % 8 == 7)
        resource.deallocate(used, one, bytes);
      else
        resource.deallocate_sync(one, bytes);
    }
  };
  test::in_threads(4, work);
  first_device.synchronize();
  // Blocks kept back are subtracted in their requested size; AMD's pools count another.
  drain_retired_memory();
  CHECK(resource.statistics().used_current == 0);
}

TEST_CASE("adaptors: pass on that memory is deallocated without a stream") {
  managed_resource managed;
  for (const test::adaptor_kind& kind : test::adaptor_kinds) {
    CAPTURE(kind.name);
    // Prefetches are for managed memory, which not every device may use beside the host.
    if (kind.is_for_managed_memory && !first_device.supports_concurrent_managed_access()) continue;
    std::unique_ptr<memory_resource> below;
    if (kind.is_for_managed_memory)
      below = std::make_unique<arena_resource>(&managed, 32 * MiB);
    else
      below = std::make_unique<vmm_pool_resource>(first_device);
    const test::owned_resource adaptor = kind.over(below.get());
    check_passes_on(*adaptor, 8 * MiB);
  }
}

TEST_CASE("binning_resource: passes on that memory is deallocated without a stream") {
  vmm_pool_resource pool{first_device};
  binning_resource bins{&pool};
  bins.add_bin(64 * KiB);
  check_passes_on(bins, 64 * KiB);
  check_passes_on(bins, 8 * MiB);
}

TEST_CASE("hipmm: what stands on our resources passes on that a stream is missing") {
  namespace rmm = hipvmm::hipmm;
  rmm::mr::cuda_memory_resource device;
  rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool{&device};
  rmm::mr::statistics_resource_adaptor counted{&pool};
  check_passes_on(counted, 8 * MiB);
  const rmm::device_async_resource_ref named = counted;
  void* one = named.allocate(8 * MiB);
  // Without a stream hipMM allocates in the default one.
  stream_ref::legacy_default().synchronize();
  test::check_held_while_used(pool, one, 8 * MiB, [&] { named.deallocate(one, 8 * MiB); });
  one = counted.allocate(8 * MiB, memory_resource::default_alignment);
  stream_ref::legacy_default().synchronize();
  test::check_held_while_used(pool, one, 8 * MiB, [&] {
    counted.deallocate(one, 8 * MiB, memory_resource::default_alignment);
  });
}

}  // namespace hipvmm::mr
