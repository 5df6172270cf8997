// SPDX-License-Identifier: MIT
// Each cause of out_of_memory, by each resource that can meet it: its value, its sentence, the size
// that would fit, and that nothing retries in vain. Some cases run in a process of other limits.
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "core/background_task.hpp"
#include "mr/mr_test.hpp"
#include "support/host/host_provider.hpp"
#include "support/process/descriptor_limit.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

std::optional<out_of_memory> refusal(const std::function<void()>& request) {
  try {
    request();
  } catch (const out_of_memory& refused) {
    return refused;
  }
  return std::nullopt;
}

/// Checks the cause, and that the sentence has each of `words` and blames nobody else.
void check_cause(const std::optional<out_of_memory>& refused, exhausted cause,
                 std::initializer_list<const char*> words) {
  REQUIRE(refused);
  const std::string text = refused->what();
  CAPTURE(text);
  CHECK(refused->resource() == cause);
  CHECK(refused->why().cause == cause);
  for (const char* const each : words) CHECK_MESSAGE(text.find(each) != std::string::npos, each);
  if (cause != exhausted::device_memory) CHECK(text.find("other programs") == std::string::npos);
}

TEST_CASE("out_of_memory: a request that is larger than the device is told so") {
  const stream used{first_device};
  const std::size_t bytes = 2 * first_device.total_memory();
  hip_resource plain{first_device};
  growable_device_vector<char> vector{first_device};
  const std::string most = format_bytes(first_device.total_memory());
  const std::string larger = "is larger than the device's memory of " + most + ": request less";
  for (const auto& request : std::initializer_list<std::function<void()>>{
           [&] { vector.resize_uninitialized(bytes); },
           [&] { static_cast<void>(plain.allocate(used, bytes)); },
           [&] {
             device_buffer{bytes, used, &plain};
           }})
    check_cause(refusal(request), exhausted::device_memory, {larger.c_str()});
  CHECK(vector.size() == 0);
}

pool_options at_most(std::size_t bytes) { return pool_options{.maximum_bytes = bytes}; }

/// Blocks of a little less than a chunk, every second of which is free.
struct scattered {
  explicit scattered(memory_resource& of, int count = 15) : from{of} {
    for (int i = 0; i < count; ++i) blocks.push_back(from.allocate(used, bytes));
    for (std::size_t i = 0; i < blocks.size(); i += 2)
      from.deallocate(used, std::exchange(blocks[i], nullptr), bytes);
    used.synchronize();
  }
  ~scattered() {
    for (void* const each : blocks)
      if (each != nullptr) from.deallocate(used, each, bytes);
  }
  static constexpr std::size_t bytes = 4 * MiB - 4096;
  memory_resource& from;
  stream used{first_device};
  std::vector<void*> blocks;
};

}  // namespace

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("shortage: a limit is named by each resource that has one") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  hip_resource device{first_device};
  limiting_resource_adaptor limiting{&device, 1 * MiB};
  arena_resource arena{&device, 16 * MiB};
  fixed_size_resource blocks{&device, 1 * MiB, 4};
  const auto asks = [](memory_resource& from, std::size_t bytes) {
    return refusal([&] { from.deallocate_sync(from.allocate_sync(bytes), bytes); });
  };
  check_cause(asks(pool, 17 * MiB), exhausted::limit,
              {"limit reached", "17.00 MiB", "pool_options::maximum_bytes", "raise maximum_bytes"});
  check_cause(asks(limiting, 2 * MiB), exhausted::limit,
              {"limit reached", "2.00 MiB", "allocation_limit", "1.00 MiB"});
  check_cause(asks(arena, 17 * MiB), exhausted::limit,
              {"limit reached", "17.00 MiB", "raise arena_size"});
  check_cause(asks(blocks, 2 * MiB), exhausted::limit, {"2.00 MiB", "block_size"});
  limiting_resource_adaptor none{&device, 0};
  const auto at_zero = asks(none, 10);
  check_cause(at_zero, exhausted::limit,
              {"allocation_limit, which is 0 B; the request is larger than that", "request less"});
  CHECK_FALSE(at_zero->why().can_be_relieved());
  // One on the other: the inner cause comes through.
  for (const std::shared_ptr<memory_resource>& outer :
       std::vector<std::shared_ptr<memory_resource>>{
           std::make_shared<arena_resource>(&limiting, 16 * MiB),
           std::make_shared<binning_resource>(&limiting)}) {
    const auto refused = asks(*outer, 4 * MiB);
    check_cause(refused, exhausted::limit, {"allocation_limit"});
    CHECK(refused->why().owner.find("allocation_limit") != std::string::npos);
  }
  growable_device_vector<char> bytes{first_device, {.resource = &limiting}};
  check_cause(refusal([&] { bytes.reserve(2 * MiB); }), exhausted::limit, {"allocation_limit"});
}

TEST_CASE("shortage: what is used within a pool's limit leaves what it says") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  void* const held = pool.allocate_sync(10 * MiB);
  const auto refused = refusal([&] { static_cast<void>(pool.allocate_sync(8 * MiB)); });
  check_cause(refused, exhausted::limit, {"8.00 MiB", "6.00 MiB", "leaves no room"});
  CHECK(refused->bytes_free() == 6 * MiB);
  CHECK(refused->why().most == 16 * MiB);
  CHECK(refused->why().used == 10 * MiB);
  pool.deallocate_sync(held, 10 * MiB);
}

TEST_CASE("shortage: parts of chunks that are free are fragmentation, on an empty device too") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const scattered parts{pool};
  const auto refused = refusal([&] { static_cast<void>(pool.allocate_sync(28 * MiB)); });
  check_cause(refused, exhausted::fragmentation,
              {"fragmentation", "28.00 MiB", "not in one piece"});
  // The size that it reports as fitting fits.
  const std::size_t fits = refused->bytes_free();
  CHECK(fits < 28 * MiB);
  pool.deallocate_sync(pool.allocate_sync(fits), fits);
}

TEST_CASE("shortage: the pool keeps its idle chunks if their release cannot serve the request") {
  vmm_pool_resource pool{first_device, at_most(96 * MiB)};
  const scattered parts{pool};
  pool.deallocate_sync(pool.allocate_sync(24 * MiB), 24 * MiB);
  hipvmm::detail::wait_for_background_tasks();
  const pool_statistics before = pool.statistics();
  const std::size_t bytes = before.largest_possible + 2 * MiB;
  // Below the limit: only the places of the chunks in use forbid it.
  REQUIRE(bytes <= pool.maximum_bytes() - before.used_current);
  const test::calls_of calls{std::array{"hipMemCreate", "hipMemRelease", "hipMemMap", "hipMemUnmap",
                                        "hipMemSetAccess", "hipMemAddressReserve"}};
  check_cause(refusal([&] { static_cast<void>(pool.allocate_sync(bytes)); }),
              exhausted::fragmentation, {"fragmentation"});
  CHECK(calls.count() == 0);
  CHECK(pool.statistics().reserved_current == before.reserved_current);
  CHECK(pool.statistics().largest_now == before.largest_now);
  // A release that serves the request happens.
  const std::size_t fits = before.largest_possible;
  pool.deallocate_sync(pool.allocate_sync(fits), fits);
}

TEST_CASE("shortage: an alignment that the addresses cannot give is named, and ends retries") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  const auto refused = refusal([&] { static_cast<void>(pool.allocate_sync(1, GiB * 1024)); });
  check_cause(refused, exhausted::alignment, {"alignment", "1.00 TiB", "smaller alignment"});
  CHECK_FALSE(refused->why().can_be_relieved());
  int asked = 0;
  pool.set_out_of_memory_callback([&](std::size_t) { return ++asked < 1'000'000; });
  CHECK_THROWS_AS(pool.allocate_sync(1, GiB * 1024), out_of_memory);
  CHECK(asked > 0);
  CHECK(asked < 100);
  pool.set_out_of_memory_callback({});
  asked = 0;
  failure_callback_resource_adaptor retrying{
      &pool, [&](std::size_t, void*) { return ++asked < 1'000'000; }};
  CHECK_THROWS_AS(retrying.allocate_sync(1, GiB * 1024), out_of_memory);
  CHECK(asked > 0);
  CHECK(asked < 100);
}

TEST_CASE("shortage: a callback that frees nothing is not asked for ever") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  void* const held = pool.allocate_sync(12 * MiB);
  std::vector<void*> small;
  int asked = 0;
  failure_callback_resource_adaptor retrying{
      &pool, [&](std::size_t, void*) { return ++asked < 1'000'000; }};
  CHECK_THROWS_AS(retrying.allocate_sync(8 * MiB), out_of_memory);
  CHECK(asked < 100);
  pool.deallocate_sync(held, 12 * MiB);
  // One that frees a little is asked until that is enough.
  for (int i = 0; i < 64; ++i) small.push_back(pool.allocate_sync(256 * KiB));
  asked = 0;
  failure_callback_resource_adaptor freeing{&pool, [&](std::size_t, void*) {
                                              ++asked;
                                              pool.deallocate_sync(small.back(), 256 * KiB);
                                              small.pop_back();
                                              return true;
                                            }};
  pool.deallocate_sync(freeing.allocate_sync(12 * MiB), 12 * MiB);
  CHECK(asked == 48);
  for (void* const each : small) pool.deallocate_sync(each, 256 * KiB);
}

TEST_CASE("shortage: an arena of slots names its budget") {
  slot_arena arena{first_device, {.slots = 4, .bytes_per_slot = 4 * MiB, .budget_bytes = 4 * MiB}};
  const stream used{first_device};
  std::vector<std::size_t> slots{arena.acquire(used), arena.acquire(used)};
  check_cause(refusal([&] {
                arena.commit(slots, std::vector<std::size_t>{4 * MiB, 4 * MiB}, used);
              }),
              exhausted::limit, {"limit reached", "budget_bytes"});
}

TEST_CASE("vmm_pool_resource: what it says would fit fits, and a granule more does not") {
  std::mt19937 random = test::seeded_generator();
  for (int round = 0; round < 12; ++round) {
    const std::size_t most = (16 + random() % 100) * MiB;
    vmm_pool_resource pool{first_device, at_most(most)};
    const stream used{first_device};
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (int step = 0; step < 40; ++step) {
      const std::size_t bytes = 1 + random() % (8 * MiB);
      if (random() % 3 != 0) {
        if (refusal([&] { blocks.emplace_back(pool.allocate(used, bytes), bytes); })) continue;
      } else if (!blocks.empty()) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        pool.deallocate(used, blocks.back().first, blocks.back().second);
        blocks.pop_back();
      }
      used.synchronize();
      if (step % 8 != 7) continue;
      // Addresses that the worker unmaps count as no place meanwhile.
      hipvmm::detail::wait_for_background_tasks();
      const std::size_t fits = pool.statistics().largest_possible;
      CAPTURE(fits);
      CAPTURE(pool.report());
      const auto request = [&](std::size_t asked) {
        return refusal([&] {
          pool.deallocate(used, pool.allocate(used, asked), asked);
          used.synchronize();
        });
      };
      // First, because a served request changes the size that would fit.
      CHECK(request(fits + test::granule() + 256));
      if (fits == 0) continue;
      const auto refused = request(fits);
      CHECK_MESSAGE(!refused, std::string{refused ? refused->what() : ""});
    }
    for (const auto& [at, bytes] : blocks) pool.deallocate(used, at, bytes);
  }
}

HIPVMM_TEST_CASE_IN(
    "vmm_pool_resource: what it says would fit needs no more descriptors than there are",
    {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_MEMORY=1GiB"}) {
  for (const std::size_t largest : {std::size_t{0}, 8 * MiB}) {
    vmm_pool_resource pool{first_device, {.largest_chunk = largest}};
    // The pool's own descriptors, for its other needs.
    pool.deallocate_sync(pool.allocate_sync(MiB), MiB);
    // The descriptors of the pool before are closed behind its end.
    drain_retired_memory();
    const test::descriptor_limit few{test::limit_that_leaves(20)};
    const std::size_t fits = pool.statistics().largest_possible;
    CAPTURE(fits);
    CHECK(fits >= 100 * MiB);
    const auto request = [&](std::size_t asked) {
      return refusal([&] { pool.deallocate_sync(pool.allocate_sync(asked), asked); });
    };
    if (largest != 0)
      check_cause(request(fits + 64 * MiB), exhausted::descriptors, {"descriptor limit"});
    const auto refused = request(fits);
    CHECK_MESSAGE(!refused, std::string{refused ? refused->what() : ""});
  }
}

HIPVMM_TEST_CASE_IN("slot_arena: as many slots as it says fit, and no more",
                    {"HIPVMM_HOST_MEMORY=256MiB"}) {
  std::mt19937 random = test::seeded_generator();
  for (int round = 0; round < 40; ++round) {
    chunk_cache::shared().trim();
    drain_retired_memory();
    slot_arena_options options{
        .slots = 100, .bytes_per_slot = (2 + 2 * (random() % 8)) * MiB, .planes = 1 + random() % 3};
    if (random() % 2 != 0) options.budget_bytes = (16 + random() % 100) * MiB;
    slot_arena arena{first_device, options};
    const stream used{first_device};
    device_buffer beside{(1 + random() % 120) * MiB, used};
    std::vector<std::size_t> held;
    const auto commit = [&](std::size_t count, std::size_t length) {
      std::vector<std::size_t> slots;
      for (std::size_t i = 0; i < count; ++i) slots.push_back(arena.acquire(used));
      const auto refused =
          refusal([&] { arena.commit(slots, std::vector<std::size_t>(count, length), used); });
      for (const std::size_t each : slots)
        refused ? arena.release(each, used) : held.push_back(each);
      used.synchronize();
      return !refused;
    };
    for (int step = 0; step < 6; ++step) {
      const std::size_t length = 1 + random() % options.bytes_per_slot;
      CAPTURE(length);
      const std::size_t fits = arena.slots_that_fit(length);
      CAPTURE(fits);
      if (fits + held.size() < options.slots) CHECK_FALSE(commit(fits + 1, length));
      CHECK(arena.slots_that_fit(length) == fits);
      CHECK(commit(std::min<std::size_t>(fits, 1 + random() % 8), length));
      if (!held.empty() && random() % 2 != 0) {
        arena.release(held.back(), used);
        held.pop_back();
      }
    }
  }
}

TEST_CASE("shortage: memory of the host is named by each resource of it") {
  constexpr std::size_t much = std::size_t{1} << 46;
  pinned_host_resource pinned;
  check_cause(refusal([&] { static_cast<void>(pinned.allocate_sync(much)); }),
              exhausted::host_memory, {"out of host memory", "64.00 TiB"});
  managed_resource managed;
  check_cause(refusal([&] { static_cast<void>(managed.allocate_sync(much)); }),
              exhausted::host_memory, {"out of host memory", "64.00 TiB"});
}

TEST_CASE("shortage: more than the device has is named by resources of HIP's own pools") {
  const std::size_t much = 4 * first_device.total_memory();
  hip_resource plain{first_device};
  const auto refused = refusal([&] { static_cast<void>(plain.allocate_sync(much)); });
  check_cause(refused, exhausted::device_memory, {"out of device memory", "request less"});
  CHECK(refused->bytes_requested() == much);
  if (!first_device.supports_memory_pools()) return;
  hip_async_resource pooled{first_device};
  const stream used{first_device};
  check_cause(refusal([&] { static_cast<void>(pooled.allocate(used, much)); }),
              exhausted::device_memory, {"out of device memory"});
}

HIPVMM_TEST_CASE_IN("shortage: a pool on a full device names the request, and not a chunk of it",
                    {"HIPVMM_HOST_MEMORY=72MiB"}) {
  region held{first_device, 56 * MiB};
  held.commit(0, 56 * MiB);
  vmm_pool_resource pool{first_device};
  const auto refused = refusal([&] { static_cast<void>(pool.allocate_sync(40 * MiB)); });
  check_cause(refused, exhausted::device_memory, {"16.00 MiB free, and 40.00 MiB were requested"});
  CHECK(refused->bytes_requested() == 40 * MiB);
  CHECK(refused->bytes_free() == 16 * MiB);
}

HIPVMM_TEST_CASE_IN("shortage: descriptors are named by all that makes chunks",
                    {"HIPVMM_HOST_PROFILE=rocm-7.14"}) {
  vmm_pool_resource pool{first_device};
  growable_device_vector<char> bytes{first_device};
  slot_arena arena{first_device, {.slots = 4, .bytes_per_slot = 4 * MiB}};
  const stream used{first_device};
  const std::vector<std::size_t> slots{arena.acquire(used)};
  const test::no_descriptors_left none;
  for (const std::function<void()>& request : std::vector<std::function<void()>>{
           [&] { static_cast<void>(pool.allocate_sync(4 * MiB)); }, [&] { bytes.reserve(4 * MiB); },
           [&] { arena.commit(slots, std::vector<std::size_t>{4 * MiB}, used); }})
    check_cause(refusal(request), exhausted::descriptors, {"descriptor limit", "ulimit -n"});
  CHECK(pool.statistics().largest_possible == 0);
  CHECK(arena.slots_that_fit(4 * MiB) == 0);
}

HIPVMM_TEST_CASE_IN("address_share: a trial takes addresses from no other thread",
                    {"HIPVMM_HOST_MEMORY=8GiB", "HIPVMM_HOST_ADDRESS_SPACE=64GiB"}) {
  std::atomic<bool> ends{false};
  std::thread making{[&] {
    while (!ends) {
      const growable_device_vector<int> one{first_device};
    }
  }};
  std::size_t less = 0;
  for (int i = 0; i < 500; ++i) {
    const region large{first_device, 36 * GiB};
    less += large.max_bytes() != 36 * GiB;
  }
  ends = true;
  making.join();
  CHECK(less == 0);
}

HIPVMM_TEST_CASE_IN("address_share: a pool leaves addresses to those that come after it",
                    {"HIPVMM_HOST_MEMORY=16GiB", "HIPVMM_HOST_ADDRESS_SPACE=64GiB"}) {
  vmm_pool_resource first{first_device};
  CHECK(first.statistics().address_bytes >= 8 * GiB);
  growable_device_vector<int> one{first_device};
  growable_device_vector<int> two{first_device};
  const stream used{first_device};
  one.resize(10, 1, used);
  two.resize(10, 1, used);
  vmm_pool_resource second{first_device};
  second.deallocate_sync(second.allocate_sync(GiB), GiB);
  CHECK(second.maximum_bytes() <= second.statistics().address_bytes);
  const slot_arena arena{first_device, {.slots = 4, .bytes_per_slot = 64 * MiB}};
  std::vector<growable_device_vector<int>> many;
  for (int i = 0; i < 200; ++i) many.emplace_back(first_device).resize(1000, 1, used);
  // A refusal for lack of addresses is no lack of memory.
  const auto refused =
      refusal([&] { static_cast<void>(second.allocate_sync(second.maximum_bytes() + 2 * MiB)); });
  check_cause(refused, exhausted::addresses, {"out of addresses"});
}

// ThreadSanitizer leaves a process fewer addresses.
#ifndef __SANITIZE_THREAD__
HIPVMM_TEST_CASE_IN("address_share: seventy pools of a large device can each hold all of it",
                    {"HIPVMM_HOST_MEMORY=288GiB"}) {
  std::vector<std::unique_ptr<vmm_pool_resource>> pools;
  for (int i = 0; i < 70; ++i) pools.push_back(std::make_unique<vmm_pool_resource>(first_device));
  CHECK(pools.back()->maximum_bytes() >= 200 * GiB);
  CHECK(pools.back()->maximum_bytes() <= pools.back()->statistics().address_bytes);
  std::vector<growable_device_vector<char>> vectors;
  for (int i = 0; i < 400; ++i) vectors.emplace_back(first_device);
  CHECK(vectors.back().max_size() >= 4 * GiB);
}
#endif

TEST_SUITE_END();

}  // namespace hipvmm::mr
