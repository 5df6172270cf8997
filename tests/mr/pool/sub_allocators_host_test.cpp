// SPDX-License-Identifier: MIT
#include <fstream>
#include <sstream>

#include <hipvmm/mr/adaptor/guard_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/pool_sharing.hpp>
#include "mr/mr_test.hpp"
#include "mr/pool/random_program.hpp"
#include "support/device_bytes.hpp"
#include "support/host/host_test.hpp"
#include "support/pools_are_missing.hpp"
#include "support/process/forked_child.hpp"
#include "support/random_seed.hpp"

// Tests of arena_resource, binning_resource and fixed_size_resource that need the host provider,
// and those that ask the same of vmm_pool_resource: calls, held streams, calls that fail in turn,
// and the order of all uses, which the checker judges if HIPVMM_HOST_CHECK=1 switches it on.
namespace hipvmm::mr {
namespace {

using test::first_device;
constexpr std::size_t block = 64 * KiB;

std::unique_ptr<memory_resource> one_block_of(memory_resource* upstream, bool fixed) {
  if (fixed) return std::make_unique<fixed_size_resource>(upstream, block, 1);
  return std::make_unique<arena_resource>(upstream, block);
}

void end_capture(stream_ref captured, std::size_t expected_nodes) {
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
  std::size_t nodes = 0;
  CHECK(hipGraphGetNodes(graph, nullptr, &nodes) == hipSuccess);
  CHECK(nodes == expected_nodes);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

void verify_hand_over(memory_resource& resource, std::size_t bytes = block) {
  const stream first{first_device};
  const stream second{first_device};
  void* const one = resource.allocate(first, bytes);
  // A slab that was not as aligned as it should goes back behind a wait.
  drain_retired_memory();
  test::held_streams held;
  fill_async(first, one, 1, bytes);
  resource.deallocate(first, one, bytes);
  const test::calls_of waits{test::waiting_functions};
  void* const two = resource.allocate(second, bytes);
  CHECK(two == one);
  CHECK(waits.count() == 0);
  fill_async(second, two, 2, bytes);
  held.release();
  CHECK(test::read_bytes(second, two, bytes) == test::byte_vector(bytes, 2));
  resource.deallocate(second, two, bytes);
}

template <typename Pool>
void verify_trim(Pool& pool, std::size_t bytes) {
  const stream used{first_device};
  void* const one = pool.allocate(used, bytes);
  test::held_streams held;
  fill_async(used, one, 1, bytes);
  pool.deallocate(used, one, bytes);
  CHECK(pool.trim_to(0) == 0);
  held.release();
  used.synchronize();
  CHECK(pool.trim_to(0) == 8 * MiB);
}

/// Blocks of one size on hipMalloc, or an arena on a pool, with one block allocated.
struct worn {
  explicit worn(bool fixed) : first{first_device}, second{first_device} {
    const pool_options options{.maximum_bytes = 32 * MiB};
    if (!fixed)
      upstream = std::make_unique<vmm_pool_resource>(first_device, options);
    else
      upstream = std::make_unique<hip_resource>(first_device);
    if (fixed)
      resource = std::make_unique<fixed_size_resource>(upstream.get(), block, 2);
    else
      resource = std::make_unique<arena_resource>(upstream.get(), 24 * MiB);
    kept = resource->allocate(first, block);
    fill_async(first, kept, 7, block);
  }
  ~worn() { resource->deallocate(first, kept, block); }
  void use() const {
    std::vector<void*> out;
    const auto give_back = [&] {
      for (std::size_t i = 0; i < out.size(); ++i)
        resource->deallocate(i % 2 == 0 ? first : second, out[i], block);
    };
    try {
      for (int i = 0; i < 4; ++i)
        out.push_back(resource->allocate(i % 2 == 0 ? first : second, block));
    } catch (...) {
      give_back();
      throw;
    }
    give_back();
    resource->deallocate_sync(resource->allocate_sync(block), block);
    if (auto* const arena = dynamic_cast<arena_resource*>(resource.get())) arena->trim_to(0);
    if (auto* const fixed = dynamic_cast<fixed_size_resource*>(resource.get())) fixed->trim_to(0);
  }
  void verify() const {
    CHECK(test::read_bytes(first, kept, block) == test::byte_vector(block, 7));
    use();
  }

  stream first;
  stream second;
  std::unique_ptr<memory_resource> upstream;
  std::unique_ptr<memory_resource> resource;
  void* kept = nullptr;
};

}  // namespace

TEST_CASE("pools: memory goes to another stream behind its work, and nothing waits") {
  hip_resource below{first_device};
  verify_hand_over(*one_block_of(&below, true));
  verify_hand_over(*one_block_of(&below, false));
  vmm_pool_resource pool{first_device, test::at_most(8 * MiB)};
  verify_hand_over(pool, 8 * MiB);
}

TEST_CASE("sub-allocators: a stream that waited for an event takes what was freed before") {
  for (const bool fixed : {true, false}) {
    hip_resource below{first_device};
    const auto resource = one_block_of(&below, fixed);
    test::blocked_stream first{first_device};
    const stream second{first_device};
    void* const one = resource->allocate(first, block);
    resource->deallocate(first, one, block);
    event given_back{first_device};
    given_back.record(first);
    second.wait(given_back);
    const test::call_counter records{"hipEventRecord"};
    void* const two = resource->allocate(second, block);
    CHECK(two == one);
    CHECK(records.count() == 0);
    resource->deallocate(second, two, block);
    first.release();  // ~stream of the second may wait for its work
  }
}

TEST_CASE("sub-allocators: a stream of another device is waited for as any other") {
  for (const bool fixed : {true, false}) {
    vmm_pool_resource pool{first_device};
    pool.grant(device_ref{1});
    const auto resource = one_block_of(&pool, fixed);
    test::blocked_stream far{device_ref{1}};
    const stream near{first_device};
    void* const one = resource->allocate(far, block);
    resource->deallocate(far, one, block);
    REQUIRE(resource->allocate(near, block) == one);
    CHECK_FALSE(near.is_done());
    far.release();
    near.synchronize();
    resource->deallocate(near, one, block);
  }
}

TEST_CASE("sub-allocators: reuse in the same stream asks HIP only whether it is captured") {
  hip_resource below{first_device};
  for (const bool fixed : {true, false}) {
    const auto resource = one_block_of(&below, fixed);
    const stream used{first_device};
    resource->deallocate(used, resource->allocate(used, block), block);
    const test::call_counter calls{nullptr};
    const test::call_counter questions{"hipStreamIsCapturing"};
    for (int i = 0; i < 100; ++i)
      resource->deallocate(used, resource->allocate(used, block), block);
    CHECK(questions.count() == 100);
    CHECK(calls.count() == 100);
  }
}

TEST_CASE("pools: trim takes nothing away that work under way uses") {
  hip_resource below{first_device};
  arena_resource arena{&below, 8 * MiB};
  verify_trim(arena, block);
  vmm_pool_resource pool{first_device, test::at_most(64 * MiB)};
  verify_trim(pool, 8 * MiB);
}

TEST_CASE("sub-allocators: their end waits for their own streams, and gives all back") {
  for (const bool fixed : {true, false}) {
    vmm_pool_resource pool{first_device};
    test::blocked_stream unrelated{first_device};
    const stream used{first_device};
    {
      const auto resource = one_block_of(&pool, fixed);
      void* const one = resource->allocate(used, block);
      fill_async(used, one, 1, block);
      resource->deallocate(used, one, block);
    }
    CHECK(used.is_done());
    CHECK_FALSE(unrelated.is_done());
    CHECK(pool.statistics().used_current == 0);
  }
}

TEST_CASE("sub-allocators: they serve a captured stream and others beside it") {
  for (const auto mode :
       {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed}) {
    for (const bool fixed : {true, false}) {
      CAPTURE(mode);
      CAPTURE(fixed);
      hip_resource below{first_device};
      // Each of these requests takes a slab of its own.
      const std::size_t bytes = fixed ? block : 8 * MiB;
      fixed_size_resource blocks{&below, block, 1};
      arena_resource arena{&below, 64 * MiB};
      memory_resource& resource = fixed ? static_cast<memory_resource&>(blocks) : arena;
      const stream captured{first_device};
      const stream other{first_device};
      for (const stream& each : {std::cref(captured), std::cref(other)})
        resource.deallocate(each, resource.allocate(each, bytes), bytes);
      const test::error_recorder reported;
      REQUIRE(hipStreamBeginCapture(captured.get(), mode) == hipSuccess);
      // Of its own, of another stream, new.
      std::vector<void*> of_graph;
      for (int i = 0; i < 3; ++i) {
        of_graph.push_back(resource.allocate(captured, bytes));
        fill_async(captured, of_graph.back(), 1, bytes);
      }
      void* const beside = resource.allocate(other, bytes);
      fill_async(other, beside, 2, bytes);
      resource.deallocate(other, beside, bytes);
      fixed ? blocks.trim_to(0) : arena.trim_to(0);
      CHECK(stream_ref{captured}.is_capturing());
      end_capture(captured, of_graph.size());
      for (void* const each : of_graph) resource.deallocate(captured, each, bytes);
      CHECK(reported.count() == 0);
    }
  }
}

TEST_CASE("pools: a thread's default stream gives nothing back while it is captured") {
  hip_resource below{first_device};
  const auto blocks = one_block_of(&below, true);
  const auto arena = one_block_of(&below, false);
  vmm_pool_resource pool{first_device, test::at_most(64 * MiB)};
  for (memory_resource* const each :
       std::initializer_list<memory_resource*>{blocks.get(), arena.get(), &pool}) {
    const std::size_t bytes = each == &pool ? MiB : block;
    const stream_ref own = stream_ref::per_thread_default();
    void* const one = each->allocate(own, bytes);
    drain_retired_memory();
    const test::error_recorder reported;
    REQUIRE(hipStreamBeginCapture(own.get(), hipStreamCaptureModeGlobal) == hipSuccess);
    each->deallocate(own, one, bytes);
    end_capture(own, 0);
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors()[0].message.find("being captured") != std::string::npos);
    CHECK(pool.statistics().used_current == (each == &pool ? bytes : 0));
    each->deallocate(own, one, bytes);
    CHECK(reported.count() == 1);
    CHECK(pool.statistics().used_current == 0);
  }
}

TEST_CASE("sub-allocators: construction that fails leaves nothing behind") {
  test::fault_sweep{"fixed_size_resource"}.run([] {
    hip_resource below{first_device};
    const fixed_size_resource blocks{&below, block, 4};
  });
  test::fault_sweep{"binning_resource"}.run([] {
    hip_resource below{first_device};
    const binning_resource bins{&below, 8, 9};
  });
  test::fault_sweep{"arena_resource"}.run([] {
    hip_resource below{first_device};
    const arena_resource arena{&below};
  });
}

TEST_CASE("callback_resource: each HIP call that fails leaves nothing behind") {
  test::fault_sweep{"callback_resource"}.run([] {
    hip_resource below{first_device};
    callback_resource resource{
        [&](std::size_t bytes, stream_ref used, void*) { return below.allocate(used, bytes); },
        [&](void* pointer, std::size_t bytes, stream_ref used, void*) {
          below.deallocate(used, pointer, bytes);
        }};
    resource.deallocate_sync(resource.allocate_sync(block), block);
  });
}

TEST_CASE("sub-allocators: a call that fails leaves them to be used") {
  for (const bool fixed : {true, false}) {
    test::fault_sweep{fixed ? "fixed_size_resource" : "arena_resource",
                      test::after_failure::capacity}
        .run([=] { return std::make_unique<worn>(fixed); }, [](auto& subject) { subject.use(); },
             [](auto& subject) { subject.verify(); }, [](auto& subject) { subject.verify(); });
  }
}

TEST_CASE("sub-allocators: random programs of many threads and streams keep their bytes") {
  std::mt19937 seeds = test::seeded_generator();
  const hipvmm_host_counters before = test::live_objects();
  {
    hip_resource below{first_device};
    arena_resource arena{&below, 48 * MiB};
    fixed_size_resource large{&arena, block, 8};
    fixed_size_resource small{&below, 4096, 16};
    binning_resource bins{&arena};
    bins.add_bin(4096, &small);
    bins.add_bin(block, &large);
    test::run_random_programs(arena, first_device, {20000, 3 * MiB}, seeds, 100);
    test::run_random_programs(large, first_device, {20000, block}, seeds, 100);
    test::run_random_programs(small, first_device, {4096, 4096}, seeds, 100);
    test::run_random_programs(bins, first_device, {20000, 3 * MiB}, seeds, 100);
    CHECK(large.statistics().used + small.statistics().used == 0);
    CHECK(arena.statistics().used_current == large.statistics().held * block);
    CHECK(arena.statistics().reserved_high <= 48 * MiB);
  }
  drain_retired_memory();
  CHECK(test::live_objects() == before);
}

TEST_CASE("sub-allocators: their end in a child of fork() calls no HIP") {
  hip_resource upstream{first_device};
  const stream used{first_device};
  std::optional<arena_resource> arena{std::in_place, &upstream, 64 * MiB};
  std::optional<fixed_size_resource> blocks{std::in_place, &upstream, 4096, 16};
  arena->deallocate(used, arena->allocate(used, MiB), MiB);
  blocks->deallocate(used, blocks->allocate(used, 4096), 4096);
  CHECK(test::succeeds_in_forked_child([&] {
    const test::call_counter calls{nullptr};
    arena.reset();
    blocks.reset();
    return calls.count() == 0;
  }));
}

TEST_CASE("resources: in a child of fork() requests are refused, and memory ends without HIP") {
  hip_resource upstream{first_device};
  const stream used{first_device};
  vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
  arena_resource arena{&upstream, 64 * MiB};
  fixed_size_resource blocks{&upstream, 4096, 16};
  binning_resource bins{&pool, 10, 12};
  statistics_resource_adaptor counted{&pool};
  callback_resource called{
      [&](std::size_t bytes, stream_ref, void*) { return upstream.allocate_sync(bytes); },
      [&](void* memory, std::size_t bytes, stream_ref, void*) {
        upstream.deallocate_sync(memory, bytes);
      }};
  const std::vector<memory_resource*> all{&pool, &arena, &blocks, &bins, &counted, &called};
  std::vector<void*> memory;
  for (memory_resource* const each : all) {
    each->deallocate(used, each->allocate(used, 1000), 1000);
    memory.push_back(each->allocate(used, 1000));
  }
  CHECK(test::succeeds_in_forked_child([&] {
    const test::call_counter calls{nullptr};
    const test::error_recorder reported;
    const auto is_refused = [](auto call) {
      return test::text_thrown_by<unsupported>(call).find("a child of fork()") != std::string::npos;
    };
    bool is_right = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      is_right = is_right && is_refused([&] { return all[i]->allocate(used, 1000); }) &&
                 is_refused([&] { return all[i]->allocate_sync(1000); });
      all[i]->deallocate(used, memory[i], 1000);
      all[i]->deallocate_sync(memory[i], 1000);
    }
    pool.deallocate(memory[0]);
    return is_right && is_refused([&] { return pool.trim_to(0); }) &&
           is_refused([&] { return pool.statistics().used_current; }) &&
           is_refused([&] { return pool.report(); }) &&
           is_refused([&] { return arena.trim_to(0); }) &&
           is_refused([&] { return blocks.statistics().held; }) && calls.count() == 0 &&
           reported.count() == 0;
  }));
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->deallocate(used, memory[i], 1000);
}

TEST_CASE("hip_async_resource, imported_pool: in a child of fork() no function calls HIP") {
  if (test::pools_are_missing()) return;
  hip_async_resource pool{first_device, {.shareable = handle_type::posix_fd}};
  const imported_pool imported{pool.export_handle(), first_device};
  CHECK(test::succeeds_in_forked_child([&] {
    const test::call_counter calls{nullptr};
    const auto is_refused = [](auto call) {
      return test::text_thrown_by<unsupported>(call).find("a child of fork()") != std::string::npos;
    };
    return is_refused([&] { pool.make_current(); }) &&
           is_refused([&] { return pool.release_threshold(); }) &&
           is_refused([&] { pool.set_release_threshold(0); }) &&
           is_refused([&] { return pool.reuse().allow_opportunistic; }) &&
           is_refused([&] { pool.set_reuse({}); }) &&
           is_refused([&] { return pool.access(first_device); }) &&
           is_refused([&] { pool.grant(first_device, access_right::read_write); }) &&
           is_refused([&] { return pool.export_handle(); }) &&
           is_refused([&] { return pool.export_pointer(nullptr).data.size(); }) &&
           is_refused([&] { pool.reset_peaks(); }) &&
           is_refused([&] { return imported.import_pointer({}, 1).bytes(); }) &&
           is_refused([&] { imported.grant(first_device); }) &&
           is_refused([&] { return imported.access(first_device); }) && calls.count() == 0;
  }));
}

TEST_CASE("resources: in a child of fork() what an adaptor has collected stays") {
  if (test::pools_are_missing()) return;
  hip_resource upstream{first_device};
  std::ostringstream rows;
  logging_resource_adaptor logged{&upstream, rows};
  guard_resource_adaptor guarded{&upstream};
  hip_async_resource async{first_device};
  const stream used{first_device};
  for (memory_resource* const each : std::initializer_list<memory_resource*>{&logged, &guarded})
    each->deallocate(used, each->allocate(used, 1000), 1000);
  CHECK(test::succeeds_in_forked_child([&] {
    const test::call_counter calls{nullptr};
    const std::string before = rows.str();
    const auto is_refused = [](auto call) {
      return !test::text_thrown_by<unsupported>(call).empty();
    };
    return is_refused([&] { logged.flush(); }) && is_refused([&] { guarded.flush(); }) &&
           is_refused([&] { async.trim_to(0); }) && is_refused([&] { async.reset_peaks(); }) &&
           is_refused([&] { return async.statistics(); }) && rows.str() == before &&
           calls.count() == 0;
  }));
}

TEST_CASE("binning_resource: many bins take few addresses") {
  hip_resource upstream{first_device};
  const auto mapped = [] {
    std::ifstream sizes{"/proc/self/statm"};
    std::size_t pages = 0;
    sizes >> pages;
    return pages * 4096;
  };
  const std::size_t before = mapped();
  const binning_resource bins{&upstream, 10, 20};
  CHECK(mapped() - before < 512 * MiB);
}

/// Whether a resource is of the second device, and of no other.
bool is_of_second_device(memory_resource& made) {
  const device_ref second{1};
  if (made.device() != second) return false;
  try {
    set_per_device_resource(first_device, &made);
    set_per_device_resource(first_device, nullptr);
    return false;
  } catch (const std::invalid_argument&) {
    set_per_device_resource(second, &made);
    set_per_device_resource(second, nullptr);
    return true;
  }
}

TEST_CASE("resources: memory that is kept of no device is of the one that it is made for") {
  if (device_count() < 2) return;
  managed_resource managed;
  pinned_host_resource pinned;
  for (memory_resource* const upstream :
       {static_cast<memory_resource*>(&managed), static_cast<memory_resource*>(&pinned)}) {
    REQUIRE_FALSE(upstream->device());
    std::optional<scoped_device> second{std::in_place, device_ref{1}};
    arena_resource arena{upstream, 8 * MiB};
    fixed_size_resource blocks{upstream, 4096, 16};
    binning_resource bins{upstream, 10, 12};
    binning_resource others{upstream};
    guard_resource_adaptor guarded{upstream};
    statistics_resource_adaptor counted{&arena};
    second.reset();
    CHECK_FALSE(others.device());
    others.add_bin(4096, &blocks);
    others.add_bin(8192);  // of the device of the first bin, whichever is current
    fixed_size_resource elsewhere{upstream, 16384, 2};
    CHECK_THROWS_AS(others.add_bin(16384, &elsewhere), std::invalid_argument);
    for (memory_resource* const each : std::initializer_list<memory_resource*>{
             &arena, &blocks, &bins, &others, &guarded, &counted})
      CHECK(is_of_second_device(*each));
  }
}

}  // namespace hipvmm::mr
