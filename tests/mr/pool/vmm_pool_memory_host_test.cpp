// SPDX-License-Identifier: MIT
// The chunks of a pool, by its options.
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/sleep/evictable.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "mr/mr_test.hpp"
#include "support/device_use.hpp"
#include "support/host/host_test.hpp"
#include "support/region/held_memory.hpp"
#include "vmm/cached_chunks.hpp"
#include "vmm/chunk_cache.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::mr {
namespace {

using test::at_most;
using test::first_device;
using test::free_memory_at_rest;

pool_options uncached_pool() {
  pool_options options = at_most(64 * MiB);
  options.memory = chunk_memory::uncached;
  return options;
}

/// Whether the pool has chunks, and all of them are uncached.
bool is_uncached(const vmm_pool_resource& pool) {
  const std::vector<chunk_view> chunks = pool.chunks();
  return !chunks.empty() && std::all_of(chunks.begin(), chunks.end(), [](const chunk_view& each) {
    return each.memory == chunk_memory::uncached;
  });
}

TEST_CASE("vmm_pool_resource: chunks are uncached only where the device makes such") {
  if (capability_of(first_device).has(trait::uncached_chunks)) return;
  const bool has_chunks = capability_of(first_device).path() != memory_path::fallback;
  CHECK_THROWS_WITH_AS(
      (vmm_pool_resource{first_device, uncached_pool()}),
      doctest::Contains(has_chunks ? "pool_options::memory: device 0 makes no uncached"
                                   : "pool_options::memory on device 0: only chunks"),
      unsupported);
  pool_options strict = uncached_pool();
  strict.fallback = without_vmm::refuse;
  CHECK_THROWS_AS((vmm_pool_resource{first_device, strict}), unsupported);
}

void grow_and_move_uncached() {
  REQUIRE(capability_of(first_device).has(trait::uncached_chunks));
  const stream used{first_device};
  vmm_pool_resource pool{first_device, uncached_pool()};
  std::vector<void*> parts;
  for (int i = 0; i < 6; ++i) parts.push_back(pool.allocate(used, 8 * MiB));
  CHECK(is_uncached(pool));
  for (std::size_t i = 0; i < parts.size(); i += 2) pool.deallocate(used, parts[i], 8 * MiB);
  used.synchronize();
  // No free range is so long: chunks move, or are made anew.
  void* const whole = pool.allocate(used, 24 * MiB);
  CHECK(is_uncached(pool));
  pool.deallocate(used, whole, 24 * MiB);
  for (std::size_t i = 1; i < parts.size(); i += 2) pool.deallocate(used, parts[i], 8 * MiB);
  used.synchronize();
  // Addresses that are taken anew, if memory returns only with them, have such chunks too.
  pool.trim_to(0, std::chrono::steady_clock::now() + std::chrono::seconds{10});
  CHECK(pool.usage().reserved_current == 0);
  pool.deallocate(used, pool.allocate(used, MiB), MiB);
  CHECK(is_uncached(pool));
  const vmm_pool_resource plain{first_device, [] {
                                  pool_options options = at_most(64 * MiB);
                                  options.initial_bytes = 2 * MiB;
                                  return options;
                                }()};
  CHECK_FALSE(is_uncached(plain));
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: all of its chunks are uncached",
                    {"HIPVMM_HOST_PROFILE=rocm-7.2"}) {
  grow_and_move_uncached();
}
HIPVMM_TEST_CASE_IN("vmm_pool_resource: all of its chunks are uncached in new addresses too",
                    {"HIPVMM_HOST_PROFILE=rocm-7.14",
                     "HIPVMM_CAPABILITY=assume:returns_memory=no,returns_with_addresses=yes,"
                     "coherent_aliases=no"}) {
  grow_and_move_uncached();
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: uncached pools and requests that fail leave nothing",
                    {"HIPVMM_HOST_PROFILE=rocm-7.14"}) {
  struct subject {
    stream used{first_device};
    std::optional<vmm_pool_resource> pool;
    void* block = nullptr;
    ~subject() {
      if (block != nullptr) pool->deallocate(used, block, 3 * MiB);
    }
  };
  test::fault_sweep{"uncached pool", test::after_failure::capacity}.run<subject>(
      [](auto& one) {
        one.pool.emplace(first_device, uncached_pool());
        one.block = one.pool->allocate(one.used, 3 * MiB);
      },
      [](auto& one) {
        CHECK(one.block == nullptr);
        if (one.pool) CHECK(one.pool->usage().used_current == 0);
      },
      [](auto& one) { CHECK(is_uncached(*one.pool)); });
}

/// A hole of 150 MiB and the rest of the limit hold 200 MiB, after a program used other sizes.
void fill_holes(std::size_t largest_chunk) {
  const std::vector<std::vector<std::size_t>> used_before{
      {}, {256}, {256, 384}, {384}, {50, 100, 150, 200}};
  for (const std::vector<std::size_t>& before : used_before) {
    CAPTURE(before.size());
    pool_options options = at_most(512 * MiB);
    options.largest_chunk = largest_chunk;
    vmm_pool_resource pool{first_device, options};
    const stream used{first_device};
    for (const std::size_t each : before)
      pool.deallocate(used, pool.allocate(used, each * MiB), each * MiB);
    void* const first = pool.allocate(used, 150 * MiB);
    void* const hole = pool.allocate(used, 150 * MiB);
    void* const last = pool.allocate(used, 150 * MiB);
    pool.deallocate(used, hole, 150 * MiB);
    CHECK_NOTHROW(pool.deallocate(used, pool.allocate(used, 200 * MiB), 200 * MiB));
    CHECK(pool.statistics().reserved_high <= 512 * MiB);
    pool.deallocate(used, first, 150 * MiB);
    pool.deallocate(used, last, 150 * MiB);
  }
}

HIPVMM_TEST_CASE_IN(
    "vmm_pool_resource: chunks of a 128th of the limit serve what is free in pieces",
    {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_MEMORY=1GiB"}) {
  fill_holes(4 * MiB);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: with ROCm 6.4 such chunks serve what is free in pieces",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4", "HIPVMM_HOST_MEMORY=1GiB"}) {
  fill_holes(4 * MiB);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: chunks of one size serve what is free in pieces",
                    {"HIPVMM_HOST_PROFILE=rocm-7.1", "HIPVMM_HOST_MEMORY=1GiB"}) {
  fill_holes(0);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: memory of a failed growth is not held behind a suspend()",
                    test::under("rocm-7.2", test::kept_memory)) {
  const memory_tag tag{"t"};
  const stream stream;
  pool_options options = at_most(128 * MiB);
  options.tag = tag;
  vmm_pool_resource pool{first_device, options};
  void* const kept = pool.allocate(stream, 8 * MiB);
  {
    const test::planned_fault fault{"hipMemMap", 2, hipErrorOperatingSystem};
    CHECK_THROWS_AS(pool.allocate(stream, 18 * MiB), hip_error);
  }
  CHECK(pool.statistics().reserved_current > 8 * MiB);
  suspend(tag, keep::nothing);
  resume(tag);
  CHECK(pool.statistics().reserved_current == 8 * MiB);
  CHECK(hipvmm_host_device_bytes(0) == 8 * MiB);
  pool.deallocate(stream, kept, 8 * MiB);
}

/// Gives one chunk that the addresses of its region hold.
class pinning_holder final : detail::idle_holder {
 public:
  std::function<void()> meanwhile = [] {};
  explicit pinning_holder(std::size_t bytes) : bytes_{bytes} {
    memory_.commit(0, bytes, bytes);
    memory_.decommit(0, bytes);
  }

 private:
  detail::given_memory give_idle(const detail::idle_request& wanted) override {
    physical_chunk given = detail::cache_registry::of(kept_, first_device).take(bytes_, {});
    if (wanted.taker == nullptr || given.empty()) return {};
    wanted.taker->recycle(std::move(given));
    meanwhile();
    return {.released = 0, .moved = bytes_};
  }
  std::size_t idle_bytes() override { return 0; }

  std::size_t bytes_;
  chunk_cache kept_{GiB};
  region memory_{
      first_device, bytes_, {.cache = &kept_, .when_empty = empty_policy::keeps_addresses}};
  detail::idle_membership membership_{*this, first_device, detail::idle_membership::price::spare};
};

HIPVMM_TEST_CASE_IN("vmm_pool_resource: counts what others' addresses hold until these end",
                    {"HIPVMM_HOST_MEMORY=64MiB", "HIPVMM_HOST_PROFILE=rocm-7.2",
                     std::string{"HIPVMM_CAPABILITY=assume:"} + test::kept_memory}) {
  vmm_pool_resource pool{first_device};
  // Of the size of the pool's chunks, and of one that it does not ask for.
  for (const std::size_t bytes : {2 * MiB, 4 * MiB}) {
    CAPTURE(bytes);
    {
      const pinning_holder other{bytes};
      const physical_chunk elsewhere{first_device, 16 * MiB};
      const std::size_t fits = pool.statistics().largest_possible;
      CHECK_THROWS_AS(pool.allocate_sync(fits + bytes + 2 * MiB), out_of_memory);
      CHECK(pool.statistics().reserved_current == bytes);
      CHECK(pool.trim_to(0) == 0);
      CHECK(pool.statistics().reserved_current == bytes);
    }
    drain_retired_memory();
    CHECK(pool.statistics().reserved_current == 0);
    CHECK(pool.statistics().reserved_high == bytes);
    CHECK(hipvmm_host_device_bytes(0) == 0);
    CHECK(pool.trim_to(0) == 0);
  }
  constexpr std::size_t half = 24 * MiB;
  pinning_holder other{4 * MiB};
  const physical_chunk elsewhere{first_device, 16 * MiB};
  void* const first = pool.allocate_sync(half);
  other.meanwhile = [&] { pool.deallocate_sync(first, half); };
  CHECK(pool.allocate_sync(half) == first);
  CHECK(pool.statistics().reserved_current == half + 4 * MiB);
  pool.deallocate_sync(first, half);
  CHECK(pool.statistics().reserved_high >= half + 4 * MiB);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: another object that lacks little takes few idle chunks",
                    {"HIPVMM_HOST_MEMORY=1GiB", "HIPVMM_HOST_PROFILE=strict"}) {
  vmm_pool_resource pool{first_device};
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool.allocate_sync(32 * MiB));
  for (void* const each : blocks) pool.deallocate_sync(each, 32 * MiB);
  const std::size_t held = pool.statistics().reserved_current;
  static_cast<void>(pool.trim_to(held));  // records the fences
  device_ref{first_device}.synchronize();
  const physical_chunk elsewhere{first_device,
                                 align_down(free_memory_at_rest(first_device), 2 * MiB)};
  region other{first_device, 2 * MiB};
  other.commit(0, 2 * MiB);
  CHECK(pool.statistics().reserved_current < held);
  CHECK(pool.statistics().reserved_current >= held - 128 * MiB);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: another object waits briefly for work on free memory",
                    {"HIPVMM_HOST_MEMORY=64MiB"}) {
  if (capability_of(first_device).path() == memory_path::fallback) return;
  vmm_pool_resource pool{first_device};
  const stream own{first_device};
  void* const most = pool.allocate(own, 32 * MiB);
  const physical_chunk elsewhere{first_device,
                                 align_down(free_memory_at_rest(first_device), 2 * MiB)};
  std::optional<std::string> refused = "not yet";
  host_task(own, [] { std::this_thread::sleep_for(std::chrono::milliseconds{5}); });
  pool.deallocate(own, most, 32 * MiB);
  // A machine may be too busy for 20 ms.
  for (int i = 0; i < 5 && refused; ++i) {
    refused.reset();
    try {
      region{first_device, 2 * MiB}.commit(0, 2 * MiB);
    } catch (const out_of_memory& error) {
      refused = error.what();
      own.synchronize();
      void* const again = pool.allocate(own, 32 * MiB);
      host_task(own, [] { std::this_thread::sleep_for(std::chrono::milliseconds{5}); });
      pool.deallocate(own, again, 32 * MiB);
    }
  }
  CHECK(refused.value_or("") == "");
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: a request does not evict the pool itself",
                    {"HIPVMM_HOST_MEMORY=64MiB"}) {
  if (capability_of(first_device).path() == memory_path::fallback) return;
  const memory_tag tag{"t"};
  vmm_pool_resource pool{first_device, {.tag = tag}};
  evictable own{tag, first_device};
  const physical_chunk elsewhere{first_device, 16 * MiB};
  const stream stream;
  const scoped_use use{own, stream};
  void* const kept = pool.allocate_sync(24 * MiB);
  CHECK_THROWS_AS(pool.allocate_sync(32 * MiB), out_of_memory);
  CHECK(own.statistics().evictions == 0);
  CHECK(own.statistics().refused_in_use != 0);
  pool.deallocate_sync(kept, 24 * MiB);
}

HIPVMM_TEST_CASE_IN("vmm_pool_resource: largest_possible counts the granule that aligns a slab",
                    {"HIPVMM_HOST_MEMORY=64MiB"}) {
  const device_allocation elsewhere{first_device, 64 * KiB};
  const device_allocation more{first_device, 54 * MiB - 64 * KiB};
  pool_options options;
  options.fallback = without_vmm::always;
  vmm_pool_resource pool{first_device, options};
  // So that it is known whether addresses of hipMalloc are aligned.
  pool.deallocate_sync(pool.allocate_sync(1), 1);
  static_cast<void>(pool.trim_to(0));
  drain_retired_memory();
  const std::size_t possible = pool.statistics().largest_possible;
  void* const all = pool.allocate_sync(possible);
  CHECK(possible >= 4 * MiB);
  pool.deallocate_sync(all, possible);
}

TEST_CASE("vmm_pool_resource: an alignment that no address has releases no memory") {
  vmm_pool_resource pool{first_device};
  const stream used{first_device};
  pool.deallocate(used, pool.allocate(used, 8 * MiB), 8 * MiB);
  used.synchronize();
  const std::size_t before = pool.statistics().reserved_current;
  REQUIRE(before >= 8 * MiB);
  CHECK_THROWS(pool.allocate_sync(256, std::size_t{1} << 62));
  CHECK(pool.statistics().reserved_current == before);
}

}  // namespace
}  // namespace hipvmm::mr
