// SPDX-License-Identifier: MIT
#include <hipvmm/provider/host_control.h>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "mr/mr_test.hpp"

// Reports of pools to the order checker: each case runs in a process with HIPVMM_HOST_CHECK=1.
namespace hipvmm::mr {
namespace {

using test::first_device;

#define HIPVMM_CHECKED_CASE(name) HIPVMM_TEST_CASE_IN(name, {"HIPVMM_HOST_CHECK=1"})

/// Each sub-allocator of the library, with a small block and with a large one.
void for_each_pool(const std::function<void(memory_resource&, std::size_t)>& test) {
  for (const std::size_t bytes : {std::size_t{1000}, 1 * MiB}) {
    hip_resource below{first_device};
    // No pool grows later: a slab at an odd address would go back, and hipFree makes work known.
    vmm_pool_resource pool{first_device, {.initial_bytes = 64 * MiB}};
    arena_resource arena{&below, 64 * MiB};
    fixed_size_resource fixed{&below, bytes, 4};
    binning_resource bins{&pool};
    bins.add_bin(bytes);
    arena_resource on_pool{&pool, 16 * MiB};
    // A thread of the library that waits for the pools before makes work known as finished.
    drain_retired_memory();
    int number = 0;
    for (memory_resource* const each :
         {static_cast<memory_resource*>(&pool), static_cast<memory_resource*>(&arena),
          static_cast<memory_resource*>(&fixed), static_cast<memory_resource*>(&bins),
          static_cast<memory_resource*>(&on_pool)}) {
      CAPTURE(bytes);
      CAPTURE(number++);
      test(*each, bytes);
    }
  }
}

/// The reports that `plant` brings about, the last of them in `text`.
std::uint64_t reports_of(const std::function<void()>& plant, std::string& text) {
  REQUIRE(hipvmm_host_order_reports() == 0);
  plant();
  const std::uint64_t count = hipvmm_host_order_reports();
  text.assign(hipvmm_host_last_order_report(nullptr, 0), '\0');
  hipvmm_host_last_order_report(text.data(), text.size() + 1);
  hipvmm_host_clear_order_reports();
  return count;
}

void check_reported(const std::string& fault, const std::function<void()>& plant) {
  std::string text;
  const std::uint64_t reports = reports_of(plant, text);
  CAPTURE(text);
  CHECK(reports == 1);
  CHECK(text.starts_with("hipvmm order checker: " + fault + " of "));
}

void check_silent(const std::function<void()>& plant) {
  std::string text;
  const std::uint64_t reports = reports_of(plant, text);
  CAPTURE(text);
  CHECK(reports == 0);
}

void order(const stream& first, const stream& second) {
  event between{first_device};
  between.record(first);
  second.wait(between);
}

}  // namespace

HIPVMM_CHECKED_CASE("sub-allocators: a use after the free is reported, in the same stream too") {
  for_each_pool([](memory_resource& resource, std::size_t bytes) {
    const stream own{first_device};
    const stream other{first_device};
    void* const one = resource.allocate(own, bytes);
    fill_async(own, one, 1, bytes);
    resource.deallocate(own, one, bytes);
    check_reported("use after free", [&] { fill_async(own, one, 2, bytes); });
    own.synchronize();
    check_reported("use after free", [&] { fill_async(other, one, 2, 1); });
    other.synchronize();
  });
}

HIPVMM_CHECKED_CASE("sub-allocators: a use after a free without a stream is reported") {
  for_each_pool([](memory_resource& resource, std::size_t bytes) {
    const stream used{first_device};
    void* const one = resource.allocate_sync(bytes);
    fill_async(used, one, 1, bytes);
    resource.deallocate_sync(one, bytes);
    check_reported("use after free", [&] { fill_async(used, one, 2, bytes); });
    used.synchronize();
  });
}

HIPVMM_CHECKED_CASE("sub-allocators: a use that does not follow the allocation is reported") {
  for_each_pool([](memory_resource& resource, std::size_t bytes) {
    const stream own{first_device};
    const stream other{first_device};
    void* const one = resource.allocate(own, bytes);
    check_reported("use before allocation", [&] { fill_async(other, one, 2, bytes); });
    other.synchronize();
    resource.deallocate(own, one, bytes);
  });
}

HIPVMM_CHECKED_CASE("sub-allocators: a free that does not follow the use is reported") {
  for_each_pool([](memory_resource& resource, std::size_t bytes) {
    const stream own{first_device};
    const stream other{first_device};
    void* const one = resource.allocate(own, bytes);
    order(own, other);
    fill_async(other, one, 2, bytes);
    check_reported("use after free", [&] { resource.deallocate(own, one, bytes); });
    other.synchronize();
  });
}

HIPVMM_CHECKED_CASE("sub-allocators: memory that goes from stream to stream in order is silent") {
  for_each_pool([](memory_resource& resource, std::size_t bytes) {
    const stream first{first_device};
    const stream second{first_device};
    check_silent([&] {
      for (int i = 0; i < 20; ++i) {
        const stream& from = i % 2 == 0 ? first : second;
        const stream& to = i % 3 == 0 ? second : first;
        void* const one = resource.allocate(from, bytes);
        fill_async(from, one, 3, bytes);
        order(from, to);
        fill_async(to, one, 3, bytes);
        resource.deallocate(to, one, bytes);
        void* const two = resource.allocate_sync(bytes);
        fill_async(from, two, 3, bytes);
        resource.deallocate_sync(two, bytes);
      }
    });
  });
}

HIPVMM_CHECKED_CASE("sub-allocators: memory that a pool did not take back stays allocated") {
  vmm_pool_resource pool{first_device};
  const stream own{first_device};
  void* const one = pool.allocate(own, 1 * MiB);
  {
    const test::error_recorder reported;
    pool.deallocate(own, one, 2 * MiB);
    CHECK(reported.count() == 1);
  }
  check_silent([&] { fill_async(own, one, 1, 1 * MiB); });
  pool.deallocate(own, one, 1 * MiB);
  {
    const test::error_recorder reported;
    check_silent([&] { pool.deallocate(own, one, 1 * MiB); });
    CHECK(reported.count() == 1);
  }
}

HIPVMM_CHECKED_CASE("vmm_pool_resource: a free by address alone is noted") {
  vmm_pool_resource pool{first_device};
  const stream own{first_device};
  void* const one = pool.allocate(own, 1 * MiB);
  pool.deallocate(one);
  check_reported("use after free", [&] { fill_async(own, one, 1, 1); });
  own.synchronize();
}

HIPVMM_CHECKED_CASE("vmm_pool_resource: the default streams are noted as those of its device") {
  vmm_pool_resource pool{device_ref{1}};
  check_silent([&] {
    void* const one = pool.allocate(stream_ref::legacy_default(), 1 * MiB);
    {
      const scoped_device scope{device_ref{1}};
      fill_async(stream_ref::legacy_default(), one, 1, 1 * MiB);
    }
    pool.deallocate(stream_ref::legacy_default(), one, 1 * MiB);
  });
}

HIPVMM_CHECKED_CASE("arena_resource: what it returns to a resource that notes nothing is unused") {
  const device_allocation memory{first_device, 8 * MiB};
  callback_resource upstream{[&](std::size_t, stream_ref, void*) { return memory.get(); },
                             [](void*, std::size_t, stream_ref, void*) {}};
  const stream own{first_device};
  {
    arena_resource arena{&upstream, 8 * MiB};
    void* const one = arena.allocate(own, 1 * MiB);
    fill_async(own, one, 1, 1 * MiB);
    arena.deallocate(own, one, 1 * MiB);
    own.synchronize();
    CHECK(arena.trim_to(0) != 0);
    check_silent([&] { fill_async(own, memory.get(), 1, 8 * MiB); });
    own.synchronize();
  }
}

}  // namespace hipvmm::mr
