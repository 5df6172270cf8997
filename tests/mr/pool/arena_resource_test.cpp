// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/arena_resource.hpp>

#include <hipvmm/mr/resource/callback_resource.hpp>
#include "mr/mr_test.hpp"
#include "support/resource/contract.hpp"
#include "support/resource/counted_upstream.hpp"

namespace hipvmm::mr {
namespace {

using test::counted_upstream;
using test::first_device;
using test::refusal;

}  // namespace

TEST_CASE("arena_resource: keeps the contract of a resource, on hipMalloc and on a pool") {
  hip_resource below{first_device};
  vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
  memory_resource* upstream = &below;
  SUBCASE("hip_resource") {}
  SUBCASE("vmm_pool_resource") { upstream = &pool; }
  arena_resource arena{upstream, 64 * MiB};
  test::check_contract({arena, first_device, 4 * MiB});
}

TEST_CASE("arena_resource: it holds superblocks, at most as many as it may") {
  counted_upstream upstream;
  arena_resource arena{upstream.get(), 20 * MiB};
  CHECK(arena.arena_size() == 20 * MiB);
  CHECK(upstream.held() == 0);
  void* const small = arena.allocate_sync(1000);
  CHECK(upstream.held() == 8 * MiB);
  void* const large = arena.allocate_sync(9 * MiB);
  // 16 MiB more would be too much: the request alone is not.
  CHECK(upstream.held() == 17 * MiB);
  CHECK(arena.statistics().reserved_current == 17 * MiB);
  CHECK(arena.statistics().chunks_created == 2);
  CHECK(refusal(arena, 12 * MiB).find("leaves no room") != std::string::npos);
  CHECK(refusal(arena, 21 * MiB).find("raise arena_size") != std::string::npos);
  arena.deallocate_sync(small, 1000);
  arena.deallocate_sync(large, 9 * MiB);
}

TEST_CASE("arena_resource: a superblock is an eighth of the arena, of 8 to 128 MiB") {
  // It gives addresses that nothing uses.
  std::uintptr_t next = GiB;
  callback_resource upstream{[&](std::size_t bytes, stream_ref, void*) {
                               return reinterpret_cast<void*>(std::exchange(next, next + bytes));
                             },
                             [](void*, std::size_t, stream_ref, void*) {}};
  arena_resource arena{&upstream, 4 * GiB};
  std::vector<void*> memory;
  const auto held = [&] { return arena.statistics().reserved_current; };
  for (const auto& [from, block] : {std::pair{0 * MiB, 8 * MiB},
                                    {128 * MiB, 16 * MiB},
                                    {256 * MiB, 32 * MiB},
                                    {512 * MiB, 64 * MiB},
                                    {GiB, 128 * MiB},
                                    {3 * GiB, 128 * MiB}}) {
    CAPTURE(from);
    while (held() < from) memory.push_back(arena.allocate_sync(8 * MiB));
    std::size_t before = held();
    while (held() == before) memory.push_back(arena.allocate_sync(8 * MiB));
    CHECK(held() - before == block);
  }
  for (void* const each : memory) arena.deallocate_sync(each, 8 * MiB);
}

TEST_CASE("arena_resource: superblocks go back when told to, and for a request that needs them") {
  counted_upstream upstream;
  arena_resource arena{upstream.get(), 24 * MiB};
  const stream used{first_device};
  for (const std::size_t bytes : {6 * MiB, 10 * MiB, 24 * MiB}) {
    void* const one = arena.allocate(used, bytes);
    fill_async(used, one, 1, bytes);
    arena.deallocate(used, one, bytes);
  }
  CHECK(upstream.held() == 24 * MiB);
  used.synchronize();
  CHECK(arena.trim_to(1) == 0);
  CHECK(arena.trim_to(0) == 24 * MiB);
  CHECK(upstream.held() == 0);
  CHECK(arena.statistics().reserved_current == 0);
}

TEST_CASE("arena_resource: by default it may hold half of what the device has free") {
  hip_resource below{first_device};
  const std::size_t before = first_device.free_memory() / 2;
  const arena_resource arena{&below};
  CHECK(arena.arena_size() > 0);
  CHECK(arena.arena_size() <= first_device.total_memory() / 2);
  // Other programs may use the same GPU.
  if (!HIPVMM_TEST_ON_CUDA) CHECK(before - arena.arena_size() < KiB);
}

TEST_CASE("arena_resource: a refusal is dumped where that was asked for") {
  hip_resource below{first_device};
  for (const bool dumps : {false, true}) {
    arena_resource arena{&below, 1 * MiB, dumps};
    const test::error_recorder reported;
    CHECK_THROWS_AS(arena.allocate_sync(2 * MiB), out_of_memory);
    REQUIRE(reported.count() == (dumps ? 1 : 0));
    if (dumps)
      CHECK(reported.errors()[0].message.find("held from the device") != std::string::npos);
  }
}

TEST_CASE("arena_resource: an upstream that has less gives less, then a refusal, then more again") {
  counted_upstream upstream{10 * MiB};
  arena_resource arena{upstream.get(), 64 * MiB};
  void* const first = arena.allocate_sync(7 * MiB);
  CHECK(upstream.held() == 8 * MiB);
  void* const second = arena.allocate_sync(1536 * KiB);
  CHECK(upstream.held() == 8 * MiB + 1536 * KiB);
  CHECK(refusal(arena, 2 * MiB).find("upstream") != std::string::npos);
  CHECK(upstream.held() == 8 * MiB + 1536 * KiB);
  arena.deallocate_sync(first, 7 * MiB);
  // The superblock of the first goes back for this one.
  arena.deallocate_sync(arena.allocate_sync(8 * MiB + 256), 8 * MiB + 256);
  arena.deallocate_sync(second, 1536 * KiB);
}

TEST_CASE("arena_resource: its upstream may call back into it") {
  using namespace std::chrono_literals;
  counted_upstream upstream{16 * MiB};
  arena_resource arena{upstream.get(), 64 * MiB};
  void* kept = arena.allocate_sync(7 * MiB);
  int depth = 0;
  upstream.meanwhile = [&] {
    if (depth++ == 0) {
      arena.deallocate_sync(std::exchange(kept, nullptr), 7 * MiB);
      arena.deallocate_sync(arena.allocate_sync(1 * MiB), 1 * MiB);
      arena.deallocate_sync(arena.allocate_sync(8 * MiB + 256), 8 * MiB + 256);
      CHECK(arena.trim_to(0, std::chrono::steady_clock::now() + 10s) != 0);
    }
    --depth;
  };
  void* const one = arena.allocate_sync(12 * MiB);
  CHECK(kept == nullptr);
  upstream.meanwhile = [] {};
  arena.deallocate_sync(one, 12 * MiB);
}

TEST_CASE("arena_resource: requests of two threads get slabs of their own") {
  counted_upstream upstream;
  arena_resource arena{upstream.get(), 64 * MiB};
  void* other = nullptr;
  bool is_first = true;
  upstream.meanwhile = [&] {
    if (std::exchange(is_first, false))
      std::thread{[&] { other = arena.allocate_sync(3 * MiB); }}.join();
  };
  void* const one = arena.allocate_sync(12 * MiB);
  CHECK(other != nullptr);
  CHECK(upstream.calls() == 2);
  arena.deallocate_sync(other, 3 * MiB);
  arena.deallocate_sync(one, 12 * MiB);
}

TEST_CASE("arena_resource: a superblock that is not needed any more goes back") {
  counted_upstream upstream;
  arena_resource arena{upstream.get(), 64 * MiB};
  void* const kept = arena.allocate_sync(8 * MiB);
  upstream.meanwhile = [&] { arena.deallocate_sync(kept, 8 * MiB); };
  void* const one = arena.allocate_sync(8 * MiB);
  upstream.meanwhile = [] {};
  CHECK(one == kept);
  CHECK(upstream.calls() == 2);
  CHECK(upstream.held() == 8 * MiB);
  arena.deallocate_sync(one, 8 * MiB);
}

TEST_CASE("arena_resource: an exception of its upstream comes through and changes nothing") {
  counted_upstream upstream;
  arena_resource arena{upstream.get(), 64 * MiB};
  upstream.meanwhile = [] { throw std::runtime_error{"not today"}; };
  CHECK_THROWS_WITH_AS(arena.allocate_sync(256), "not today", std::runtime_error);
  upstream.meanwhile = [] {};
  CHECK(arena.statistics().reserved_current == 0);
  arena.deallocate_sync(arena.allocate_sync(256), 256);
}

}  // namespace hipvmm::mr
