// SPDX-License-Identifier: MIT
// The ends of objects in a child of fork() of the process that made them.
#include "runtime/ends/refused_ends.hpp"

#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/pool_sharing.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "core/background_task.hpp"
#include "runtime/host/pinned_memory.hpp"
#include "support/host/host_provider.hpp"
#include "support/process/forked_child.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

/// Whether `work` in a child of fork() calls no HIP and reports nothing, and the device keeps the
/// memory of this process, which the library counts in the child too.
bool is_silent_in_child(const std::function<void()>& work) {
  const std::size_t bytes = hipvmm_host_device_bytes(0);
  const bool is_silent = succeeds_in_forked_child([&] {
    const error_recorder reported;
    const call_counter calls{nullptr};
    const std::size_t counted = detail::created_chunk_bytes(first_device);
    work();
    return calls.count() == 0 && reported.count() == 0 &&
           detail::created_chunk_bytes(first_device) == counted;
  });
  return is_silent && hipvmm_host_device_bytes(0) == bytes;
}

struct counting_registrar final : memory_registrar {
  int removed = 0;
  void add(const mapped_memory&) override {}
  void remove(const mapped_memory&) noexcept override { ++removed; }
};

template <typename T>
void check_end(const char* what, T object) {
  CAPTURE(std::string{what});
  std::optional<T> kept{std::move(object)};
  CHECK(is_silent_in_child([&] { kept.reset(); }));
  // An object that moves in the child stays the parent's.
  CHECK(is_silent_in_child([&] {
    T moved{std::move(*kept)};
    if constexpr (std::is_nothrow_default_constructible_v<T>) {
      T made_here;
      made_here = std::move(moved);
    }
  }));
}

TEST_CASE("objects that own something of HIP's end in a child of fork() without a call") {
  const hipvmm_host_counters before = live_objects();
  check_end("device_allocation", device_allocation{first_device, MiB});
  check_end("pinned_memory", detail::pinned_memory{MiB});
  check_end("registered pinned_memory", detail::pinned_memory{9 * MiB});
  check_end("event", event{first_device});
  check_end("stream", stream{first_device});
  check_end("physical_chunk", physical_chunk{first_device, granule()});
  check_end("address_reservation", address_reservation{granule()});
  {
    const physical_chunk chunk{first_device, granule()};
    const address_reservation addresses{granule()};
    check_end("mapping", mapping{addresses, 0, chunk});
  }
  CHECK(live_objects() == before);
}

TEST_CASE("mapping: its end in a child of fork() does not call the registrar") {
  const auto registrar = std::make_shared<counting_registrar>();
  std::optional<mapped_chunk> one{std::in_place, physical_chunk{first_device, granule()}};
  one->map.register_with(registrar, one->chunk);
  CHECK(is_silent_in_child([&] {
    one.reset();
    if (registrar->removed != 0) ::_exit(2);
  }));
  one.reset();
  CHECK(registrar->removed == 1);
}

TEST_CASE("vmm: calls for objects of the parent are refused in a child of fork()") {
  mapped_chunk one{physical_chunk{first_device, granule()}};
  address_reservation addresses{granule()};
  physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  const std::vector<std::function<void()>> calls{
      [&] { one.map.unmap(); },
      [&] { addresses.free(); },
      [&] {
        mapping{addresses, 0, chunk};
      },
      [&] { shareable_handle{chunk}; },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    CHECK(is_silent_in_child([&] {
      try {
        calls[i]();
        ::_exit(2);
      } catch (const unsupported&) {
      }
    }));
  }
}

TEST_CASE("imported_pool: its end in a child of fork() calls no HIP") {
  if (!first_device.supports_memory_pools()) return;
  mr::hip_async_options shared;
  shared.shareable = handle_type::posix_fd;
  mr::hip_async_resource resource{first_device, shared};
  check_end("imported_pool", mr::imported_pool{resource.export_handle(), first_device});
}

TEST_CASE("resources: a deallocation in a child of fork() calls no HIP") {
  mr::hip_resource plain{first_device};
  mr::managed_resource managed;
  mr::pinned_host_resource pinned;
  for (mr::memory_resource* const each :
       std::initializer_list<mr::memory_resource*>{&plain, &managed, &pinned}) {
    const stream used{first_device};
    void* const one = each->allocate_sync(MiB);
    std::optional<device_buffer> buffer;
    if (each->is_device_accessible()) buffer.emplace(MiB, used, each);
    CHECK(is_silent_in_child([&] {
      buffer.reset();
      each->deallocate(used, one, MiB);
      each->deallocate_sync(one, MiB);
      try {
        static_cast<void>(each->allocate_sync(MiB));
        ::_exit(2);
      } catch (const unsupported&) {
      }
    }));
    each->deallocate_sync(one, MiB);
  }
}

TEST_CASE("chunk_cache: its end in a child of fork() calls no HIP") {
  std::optional<chunk_cache> cache{std::in_place, GiB, std::chrono::milliseconds{60'000}};
  cache->recycle(physical_chunk{first_device, granule()});
  REQUIRE(cache->statistics().bytes == granule());
  CHECK(is_silent_in_child([&] { cache.reset(); }));
}

TEST_CASE("chunk_cache: its end in a child of fork() waits for no thread of the parent") {
  std::optional<chunk_cache> cache{std::in_place, GiB, std::chrono::milliseconds{60'000}};
  cache->recycle(physical_chunk{first_device, granule()});
  std::atomic<bool> is_over{false};
  std::thread locks{[&] {
    while (!is_over) static_cast<void>(cache->statistics());
  }};
  bool ends = true;
  for (int i = 0; ends && i < 20; ++i) ends = is_silent_in_child([&] { cache.reset(); });
  is_over = true;
  locks.join();
  CHECK(ends);
}

TEST_CASE("chunk_cache: trims in a child of fork() call no HIP and wait for no thread") {
  chunk_cache cache{GiB, std::chrono::milliseconds{60'000}};
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 2; ++i) chunks.emplace_back(first_device, granule());
  for (physical_chunk& each : chunks) cache.recycle(std::move(each));
  const planned_faults slow{"hipMemRelease delay=300ms"};
  const call_counter releases{"hipMemRelease"};
  std::thread trims{[&] { cache.trim(granule()); }};
  while (releases.count() == 0) std::this_thread::yield();
  CHECK(succeeds_in_forked_child([&] {
    const call_counter calls{nullptr};
    cache.set_byte_limit(0);
    return cache.trim() == 0 && calls.count() == 0;
  }));
  trims.join();
  CHECK(cache.statistics().bytes == granule());
}

HIPVMM_CHILD("sets the cache, and forks before HIP's first call") {
  chunk_cache::shared().set_byte_limit(GiB);
  chunk_cache::shared().set_retention(std::chrono::milliseconds{60'000});
  chunk_cache::shared().trim();
  detail::wait_for_background_tasks();
  CHECK(succeeds_in_forked_child([] {
    chunk_cache::shared().recycle(physical_chunk{first_device, granule()});
    return chunk_cache::shared().statistics().bytes == granule() &&
           chunk_cache::shared().trim() == granule();
  }));
}

TEST_CASE("chunk_cache: a program that sets it before it forks and uses HIP keeps chunks") {
  check_child("sets the cache, and forks before HIP's first call");
}

/// Has HIP refuse `call` while `end` runs, and a child of fork() try again.
void check_refused(const char* call, const std::function<void()>& end) {
  CAPTURE(std::string{call});
  drain_retired_memory();
  const hipvmm_host_counters before = live_objects();
  {
    const error_recorder reported;
    const planned_faults faults{std::string{call} + " error=hipErrorUnknown"};
    end();
    CHECK(reported.count() != 0);
  }
  REQUIRE_FALSE(live_objects() == before);
  CHECK(is_silent_in_child([] {
    detail::retry_refused_ends(detail::refusals::pass);
    detail::retry_refused_ends(detail::refusals::wait);
    drain_retired_memory();
  }));
  drain_retired_memory();
  CHECK(live_objects() == before);
}

TEST_CASE("what HIP refused to end is not tried again in a child of fork()") {
  check_refused("hipFree", [] { device_allocation{first_device, MiB}; });
  check_refused("hipHostFree", [] { detail::pinned_memory{MiB}; });
  check_refused("hipHostUnregister", [] { detail::pinned_memory{9 * MiB}; });
  check_refused("hipMemRelease", [] { physical_chunk{first_device, granule()}; });
  check_refused("hipMemUnmap", [] { mapped_chunk{physical_chunk{first_device, granule()}}; });
  if (first_device.supports_memory_pools())
    check_refused("hipMemPoolDestroy", [] { mr::hip_async_resource{first_device}; });
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
