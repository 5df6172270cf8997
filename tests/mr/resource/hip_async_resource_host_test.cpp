// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include "mr/mr_test.hpp"
#include "mr/pool/held_while_used.hpp"
#include "mr/pool/waits_for.hpp"
#include "support/host/host_test.hpp"
#include "support/pools_are_missing.hpp"

namespace hipvmm::test {
namespace {

mr::hip_async_options shared() { return mr::hip_async_options{.shareable = handle_type::posix_fd}; }

}  // namespace

TEST_CASE("hip_async_resource: each HIP call that fails leaves nothing behind") {
  if (pools_are_missing()) return;
  fault_sweep{"a resource, a block in a stream and one without"}.run([] {
    mr::hip_async_options options = shared();
    options.initial_bytes = MiB;
    mr::hip_async_resource resource{device_ref{0}, options};
    const stream used{device_ref{0}};
    void* const ordered = resource.allocate(used, MiB);
    resource.deallocate(used, ordered, MiB);
    resource.deallocate_sync(resource.allocate_sync(MiB), MiB);
    static_cast<void>(resource.statistics());
    resource.grant(device_ref{1});
    resource.trim_to(0);
    resource.reset_peaks();
    device_ref{0}.synchronize();
  });
}

TEST_CASE("imported_pool: each HIP call that fails leaves nothing behind") {
  if (pools_are_missing()) return;
  mr::hip_async_resource resource{device_ref{0}, shared()};
  void* const block = resource.allocate_sync(MiB);
  fault_sweep{"an export and an import"}.run([&] {
    const stream used{device_ref{0}};
    const mr::exported_pointer pointer = resource.export_pointer(block);
    mr::imported_pool pool{resource.export_handle(), device_ref{0}};
    device_allocation by_stream = pool.import_pointer(pointer, MiB);
    pool.release(used, std::move(by_stream));
    device_allocation by_itself = pool.import_pointer(pointer, MiB);
    mr::imported_pool moved = std::move(pool);
    moved.grant(device_ref{1});
  });
  resource.deallocate_sync(block, MiB);
}

TEST_CASE("imported_pool: is imported while its device is current") {
  if (pools_are_missing()) return;
  constexpr device_ref other{1};
  mr::hip_async_resource resource{other, shared()};
  const shareable_handle handle = resource.export_handle();
  const call_counter changes{"hipSetDevice"};
  const mr::imported_pool pool{handle, other};
  CHECK(changes.count() == 2);
  CHECK(device_ref::current() == device_ref{0});
}

TEST_CASE("hip_async_resource: switches that cannot be set all stay as they were") {
  if (pools_are_missing()) return;
  const mr::pool_reuse none{false, false, false};
  fault_sweep{"set_reuse"}.run(
      [] { return std::make_unique<mr::hip_async_resource>(device_ref{0}); },
      [&](auto& resource) { resource.set_reuse(none); },
      [](auto& resource) { CHECK(resource.reuse() == mr::pool_reuse{}); },
      [&](auto& resource) { CHECK(resource.reuse() == none); });
}

TEST_CASE("hip_async_resource: a right is taken back where HIP can") {
  if (pools_are_missing()) return;
  mr::hip_async_resource resource{device_ref{0}};
  resource.grant(device_ref{1});
  if (quirks::early_pool_access.holds()) {
    CHECK_THROWS_WITH_AS(resource.revoke(device_ref{1}), doctest::Contains("be taken back"),
                         unsupported);
    CHECK(resource.access(device_ref{1}) == access_right::read_write);
  } else {
    resource.revoke(device_ref{1});
    CHECK(resource.access(device_ref{1}) == access_right::none);
  }
}

TEST_CASE("hip_async_resource: a right to read is granted where HIP has it") {
  if (pools_are_missing()) return;
  mr::hip_async_resource resource{device_ref{0}};
  if (quirks::no_peer_read_only.holds()) {
    CHECK_THROWS_WITH_AS(resource.grant(device_ref{1}, access_right::read),
                         doctest::Contains("be for reading only"), unsupported);
  } else {
    resource.grant(device_ref{1}, access_right::read);
    CHECK(resource.access(device_ref{1}) == access_right::read);
  }
}

TEST_CASE("imported_pool: data of no block and descriptors of no pool are refused") {
  if (pools_are_missing()) return;
  mr::hip_async_resource resource{device_ref{0}, shared()};
  const mr::imported_pool pool{resource.export_handle(), device_ref{0}};
  CHECK_THROWS_WITH_AS(pool.import_pointer(mr::exported_pointer{}, MiB),
                       doctest::Contains("does not take the data"), std::invalid_argument);
  const shareable_handle file{::memfd_create("no pool", MFD_CLOEXEC), 0};
  CHECK_THROWS_AS(mr::imported_pool(file, device_ref{0}), hip_error);
}

TEST_CASE("hip_async_resource, hip_resource: retired memory is waited for before a refusal") {
  const device_ref device{0};
  const stream used{device};
  drain_retired_memory();
  const std::size_t most = align_down(device.free_memory() / 4 * 3, MiB);
  const auto check = [&](mr::memory_resource& resource, auto give_all_back) {
    for (int round = 0; round < 10; ++round) {
      {
        growable_device_vector<std::byte> ends{device};
        ends.resize_uninitialized(most);
      }
      void* memory = nullptr;
      CHECK_NOTHROW(memory = resource.allocate(used, most));
      if (memory != nullptr) resource.deallocate(used, memory, most);
      used.synchronize();
      give_all_back();
    }
  };
  mr::hip_resource plain{device};
  check(plain, [] {});
  if (pools_are_missing()) return;
  mr::hip_async_resource pooled{device};
  check(pooled, [&] { pooled.trim_to(0); });
}

// Deallocations without a stream.

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

}  // namespace hipvmm::test
