// SPDX-License-Identifier: MIT
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "mr/mr_test.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/host/recording_registrar.hpp"
#include "vmm/chunk_limit.hpp"

// Pools whose memory is registered.
namespace hipvmm::test {
namespace {

mr::pool_options registered_pool(const registrar_ptr& registrar) {
  mr::pool_options options = at_most(64 * MiB);
  options.registrar = registrar;
  return options;
}

TEST_SUITE_BEGIN("needs virtual memory");

/// All bytes of [address, address + bytes) are registered.
bool knows(const recording_registrar& registrar, const void* address, std::size_t bytes) {
  const auto known = registrar.known();
  const char* const end = static_cast<const char*>(address) + bytes;
  for (const char* at = static_cast<const char*>(address); at < end;) {
    auto chunk = known.upper_bound(const_cast<char*>(at));
    if (chunk == known.begin()) return false;
    --chunk;
    const char* const last = static_cast<const char*>(chunk->first) + chunk->second.bytes;
    if (last <= at) return false;
    at = last;
  }
  return true;
}

TEST_CASE("registrar: every block of a pool is registered, and nothing when it has ended") {
  const auto registrar = std::make_shared<recording_registrar>();
  {
    memory_tag tag;
    mr::pool_options options = registered_pool(registrar);
    options.tag = tag;
    mr::vmm_pool_resource pool{first_device, options};
    const hipvmm::stream stream{first_device};
    std::vector<void*> blocks;
    const auto check = [&] {
      for (void* const each : blocks) CHECK(knows(*registrar, each, 3 * MiB));
    };
    for (int each = 0; each < 3; ++each) blocks.push_back(pool.allocate(stream, 3 * MiB));
    check();
    {
      // Chunks that a stream still uses move, or others are made.
      blocked_stream user{first_device};
      void* const used = pool.allocate(user, 6 * MiB);
      pool.deallocate(user, used, 6 * MiB);
      blocks.push_back(pool.allocate(stream, 3 * MiB));
      blocks.push_back(pool.allocate(stream, 3 * MiB));
      check();
    }
    suspend(tag, keep::contents);
    CHECK(registrar->known().empty());
    resume(tag);
    check();
    for (void* const each : blocks) pool.deallocate(stream, each, 3 * MiB);
    stream.synchronize();
    pool.trim_to(0);
    CHECK(registrar->known_bytes() == pool.statistics().reserved_current);
  }
  drain_retired_memory();
  CHECK(registrar->known().empty());
  CHECK(registrar->mistakes() == 0);
}

TEST_CASE("registrar: a registration that fails refuses the request, and the next is served") {
  chunk_cache::shared().trim();
  const auto registrar = std::make_shared<recording_registrar>();
  {
    mr::vmm_pool_resource pool{first_device, registered_pool(registrar)};
    const hipvmm::stream stream{first_device};
    void* const first = pool.allocate(stream, 2 * MiB);
    const std::size_t held = pool.statistics().reserved_current;
    const std::size_t outside = detail::created_chunk_bytes(first_device) - held;
    registrar->fail_at(1);
    CHECK_THROWS_WITH_AS(pool.allocate(stream, 16 * MiB), doctest::Contains("the registration of "),
                         std::runtime_error);
    registrar->fail_at(0);
    // Memory that was mapped already may stay with the addresses: then the pool holds it, and the
    // next request is served from it.
    const std::size_t held_after = pool.statistics().reserved_current;
    if (!capability_of(first_device).needs(quirk::re_reserve)) CHECK(held_after == held);
    CHECK(held_after == detail::created_chunk_bytes(first_device) - outside);
    CHECK(registrar->known_bytes() == held);
    void* const second = pool.allocate(stream, 16 * MiB);
    CHECK(pool.statistics().reserved_current ==
          detail::created_chunk_bytes(first_device) - outside);
    CHECK(pool.statistics().reserved_current <= held + 16 * MiB);
    CHECK(knows(*registrar, second, 16 * MiB));
    pool.deallocate(stream, second, 16 * MiB);
    pool.deallocate(stream, first, 2 * MiB);
  }
  drain_retired_memory();
  CHECK(registrar->known().empty());
  CHECK(registrar->mistakes() == 0);
}

TEST_CASE("registrar: requests that fail keep what a pool holds registered") {
  struct registered_one {
    registrar_ptr registrar = std::make_shared<recording_registrar>();
    mr::vmm_pool_resource pool{first_device, registered_pool(registrar)};
    hipvmm::stream stream{first_device};
    void* first = pool.allocate(stream, 2 * MiB);
    ~registered_one() { pool.deallocate(stream, first, 2 * MiB); }
  };
  const auto check = [](auto& one) {
    CHECK(knows(*one.registrar, one.first, 2 * MiB));
    CHECK(one.registrar->mistakes() == 0);
  };
  fault_sweep{"allocate", after_failure::capacity}.run<registered_one>(
      [](auto& one) {
        void* const block = one.pool.allocate(one.stream, 5 * MiB);
        CHECK(knows(*one.registrar, block, 5 * MiB));
        one.pool.deallocate(one.stream, block, 5 * MiB);
        one.pool.trim_to(0);
      },
      check, check);
}

TEST_CASE("registrar: threads that allocate share one pool's registrar") {
  const auto registrar = std::make_shared<recording_registrar>();
  {
    mr::vmm_pool_resource pool{first_device, registered_pool(registrar)};
    in_threads(2, [&pool, &registrar](int) {
      const hipvmm::stream stream{first_device};
      for (int round = 1; round <= 6; ++round) {
        const auto bytes = static_cast<std::size_t>(round) * MiB;
        void* const block = pool.allocate(stream, bytes);
        CHECK(knows(*registrar, block, bytes));
        pool.deallocate(stream, block, bytes);
        if (round == 3) pool.trim_to(0);
      }
    });
  }
  drain_retired_memory();
  CHECK(registrar->known().empty());
  CHECK(registrar->mistakes() == 0);
}

TEST_CASE("registrar: a pool without chunks takes none") {
  mr::pool_options options = registered_pool(std::make_shared<recording_registrar>());
  options.fallback = without_vmm::always;
  CHECK_THROWS_WITH_AS((mr::vmm_pool_resource{first_device, options}),
                       doctest::Contains("pool_options::registrar"), unsupported);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
