// SPDX-License-Identifier: MIT
#include "core/background_task.hpp"
#include "mr/mr_test.hpp"
#include "mr/pool/held_while_used.hpp"
#include "mr/pool/random_program.hpp"
#include "support/device_bytes.hpp"
#include "support/host/host_test.hpp"
#include "support/random_seed.hpp"
#include "support/region/assumed_capability.hpp"

// Tests that need the host provider: calls, held streams, and the order of all uses, which the
// checker judges if HIPVMM_HOST_CHECK=1 switches it on.
namespace hipvmm::mr {
namespace {

using test::at_most;
using test::first_device;

}  // namespace

TEST_CASE("vmm_pool_resource: raising the maximum is no advice where the device has no more" *
          test::needs_virtual_memory) {
  const auto refusal_of = [](vmm_pool_resource& pool, std::size_t bytes) {
    return test::text_thrown_by<out_of_memory>([&] { return pool.allocate_sync(bytes); });
  };
  const std::size_t total = first_device.total_memory();
  vmm_pool_resource small{first_device, at_most(16 * MiB)};
  vmm_pool_resource whole{first_device};
  const std::string more = refusal_of(small, 32 * MiB);
  const std::size_t advice = more.find("request less, or raise maximum_bytes");
  CHECK_MESSAGE(advice != std::string::npos, more);
  CHECK_MESSAGE(more.find("maximum_bytes", advice) == more.rfind("maximum_bytes"), more);
  for (vmm_pool_resource* const pool : {&small, &whole}) {
    const std::string huge = refusal_of(*pool, total + 16 * MiB);
    CHECK_MESSAGE(
        huge.find("larger than the device's memory of " + format_bytes(total)) != std::string::npos,
        huge);
    CHECK_MESSAGE(huge.find("raise") == std::string::npos, huge);
  }
  const stream used{first_device};
  void* const held = small.allocate(used, 10 * MiB);
  const std::string beside = refusal_of(small, total - 4 * MiB);
  CHECK_MESSAGE(beside.find("raise") == std::string::npos, beside);
  CHECK_MESSAGE(beside.find("free memory") != std::string::npos, beside);
  small.deallocate(used, held, 10 * MiB);
}

TEST_CASE("vmm_pool_resource: reuse in the same stream asks HIP only whether it is captured") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  for (const std::size_t bytes : {std::size_t{256}, 1 * MiB, 16 * MiB}) {
    pool.deallocate(used, pool.allocate(used, bytes), bytes);
    // A slab that was not as aligned as it should goes back behind a wait.
    drain_retired_memory();
    const test::call_counter calls{nullptr};
    const test::call_counter questions{"hipStreamIsCapturing"};
    for (int i = 0; i < 100; ++i) pool.deallocate(used, pool.allocate(used, bytes), bytes);
    CHECK(questions.count() == 100);
    CHECK(calls.count() == 100);
    const stream_ref null = stream_ref::legacy_default();
    pool.deallocate(null, pool.allocate(null, bytes), bytes);
    // For the order checker the default stream is that of the current device, which is asked for.
    if (hipvmm_host_checks_order() != 0) continue;
    const test::call_counter for_null{nullptr};
    pool.deallocate(null, pool.allocate(null, bytes), bytes);
    CHECK(for_null.count() == 0);
  }
}

TEST_CASE("vmm_pool_resource: an address alone goes back in the stream that has the memory now") {
  for (const std::size_t bytes : {std::size_t{1000}, 5 * MiB}) {
    vmm_pool_resource pool{first_device, at_most(64 * MiB)};
    pool.set_reuse({false, false, false});
    const stream first{first_device};
    void* const one = pool.allocate(first, bytes);
    first.synchronize();
    test::blocked_stream second{first_device};
    // The second stream has it from its own cache.
    pool.deallocate(second, one, bytes);
    REQUIRE(pool.allocate(second, bytes) == one);
    pool.deallocate(one);
    void* const two = pool.allocate(first, bytes);
    CHECK(two != one);
    pool.deallocate(first, two, bytes);
  }
}

TEST_CASE("vmm_pool_resource: an address alone whose stream is forgotten is held while used") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  for (const std::size_t bytes : {std::size_t{1000}, MiB}) {
    void* one = nullptr;
    {
      const stream gone{first_device};
      one = pool.allocate(gone, bytes);
      gone.synchronize();
      pool.forget_stream(gone);
    }
    drain_retired_memory();
    const test::calls_of waits{test::device_waiting_functions};
    test::check_held_while_used(pool, one, bytes, [&] {
      pool.deallocate(one);
      CHECK(waits.count() == 0);
    });
  }
  CHECK(pool.statistics().used_current == 0);
}

TEST_CASE("vmm_pool_resource: it serves beside a capture, which ends well") {
  for (const stream_kind kind : {stream_kind::non_blocking, stream_kind::blocking}) {
    for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal,
                            hipStreamCaptureModeRelaxed}) {
      CAPTURE(mode);
      vmm_pool_resource pool{first_device, at_most(64 * MiB)};
      const stream captured{first_device, kind};
      const stream other{first_device};
      const stream_ref null = stream_ref::legacy_default();
      void* const kept = pool.allocate(captured, 1 * MiB);
      for (const stream_ref each : {stream_ref{captured}, stream_ref{other}, null}) {
        void* const one = pool.allocate(each, 8 * MiB);
        fill_async(each, one, 1, 8 * MiB);
        pool.deallocate(each, one, 8 * MiB);
      }
      // The end of the pool before waits for its device, which costs captures.
      drain_retired_memory();
      REQUIRE(hipStreamBeginCapture(captured.get(), mode) == hipSuccess);
      std::vector<std::pair<void*, std::size_t>> of_graph;
      // Of others, of its own, new, and for all.
      for (const stream_ref each : {stream_ref{other}, stream_ref{captured}}) {
        for (const std::size_t bytes : {8 * MiB, 12 * MiB, 1 * MiB}) {
          void* const one = pool.allocate(each, bytes);
          fill_async(each, one, 2, bytes);
          if (each == captured)
            of_graph.push_back({one, bytes});
          else
            pool.deallocate(each, one, bytes);
        }
      }
      pool.deallocate_sync(pool.allocate_sync(4 * MiB), 4 * MiB);
      pool.trim_to(0);
      const test::error_recorder reported;
      CHECK_THROWS_AS(pool.allocate(other, 60 * MiB), out_of_memory);
      CHECK(stream_ref{captured}.is_capturing());
      hipGraph_t graph = nullptr;
      REQUIRE(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
      std::size_t nodes = 0;
      CHECK(hipGraphGetNodes(graph, nullptr, &nodes) == hipSuccess);
      CHECK(nodes == 3);
      CHECK(hipGraphDestroy(graph) == hipSuccess);
      CHECK(reported.count() == 0);
      pool.deallocate(captured, kept, 1 * MiB);
      for (const auto& [one, bytes] : of_graph) pool.deallocate(captured, one, bytes);
      CHECK(pool.statistics().used_current == 0);
    }
  }
}

/// Whether HIP has the right of device 1 to every chunk of `pool`.
bool all_chunks_give(const vmm_pool_resource& pool, access_right right) {
  if (test::on_fallback()) return pool.access(device_ref{1}) == right;
  const std::vector<chunk_access> found = pool.effective_access();
  return !found.empty() && std::all_of(found.begin(), found.end(), [&](const chunk_access& each) {
    return each.rights.find(device_ref{1}) == right;
  });
}

TEST_CASE("vmm_pool_resource: a list of rights is for the memory there is and that comes") {
  pool_options options = at_most(64 * MiB);
  options.initial_bytes = 4 * MiB;
  options.access = {{device_ref{1}, access_right::read_write}};
  vmm_pool_resource pool{first_device, options};
  CHECK(all_chunks_give(pool, access_right::read_write));
  const stream used{first_device};
  void* const first = pool.allocate(used, 16 * MiB);
  CHECK(all_chunks_give(pool, access_right::read_write));
  pool.set_access({});
  CHECK(all_chunks_give(pool, access_right::none));
  CHECK(pool.access(first_device) == access_right::read_write);
  void* const second = pool.allocate(used, 16 * MiB);
  CHECK(all_chunks_give(pool, access_right::none));
  pool.set_access(all_reachable_peers(first_device));
  CHECK(all_chunks_give(pool, access_right::read_write));
  pool.deallocate(used, first, 16 * MiB);
  pool.deallocate(used, second, 16 * MiB);
  used.synchronize();
  // If that gives up the addresses the next ones have the same rights.
  pool.trim_to(0);
  void* const third = pool.allocate(used, 16 * MiB);
  CHECK(all_chunks_give(pool, access_right::read_write));
  pool.deallocate(used, third, 16 * MiB);
}

TEST_CASE("vmm_pool_resource: a list of rights that cannot be changes nothing") {
  pool_options options = at_most(64 * MiB);
  options.access = {{device_ref{2}, access_right::read_write}};
  CHECK_THROWS_WITH_AS((vmm_pool_resource{first_device, options}),
                       doctest::Contains("device 2 cannot reach the memory of device 0"),
                       unsupported);
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  CHECK_THROWS_AS(pool.set_access({{device_ref{1}, access_right::read_write},
                                   {device_ref{2}, access_right::read_write}}),
                  unsupported);
  CHECK_THROWS_AS(pool.set_access({{device_ref{3}, access_right::none}}), std::invalid_argument);
  CHECK(pool.access(device_ref{1}) == access_right::none);
}

TEST_CASE("vmm_pool_resource: rights change while threads allocate") {
  vmm_pool_resource pool{first_device, at_most(256 * MiB)};
  std::vector<std::thread> threads;
  for (int index = 0; index < 3; ++index) {
    threads.emplace_back([&pool, index] {
      const stream own{first_device};
      for (int round = 0; round < 30; ++round) {
        const std::size_t bytes = static_cast<std::size_t>(1 + (round + index) % 7) * MiB;
        void* const one = pool.allocate(own, bytes);
        fill_async(own, one, 1, bytes);
        pool.deallocate(own, one, bytes);
      }
    });
  }
  for (int round = 0; round < 30; ++round)
    pool.set_access(round % 2 == 0 ? access_list{{device_ref{1}, access_right::read_write}}
                                   : access_list{});
  for (std::thread& each : threads) each.join();
  pool.set_access({{device_ref{1}, access_right::read_write}});
  CHECK(all_chunks_give(pool, access_right::read_write));
}

TEST_CASE("vmm_pool_resource: a default stream that is made to wait is that of the pool's device") {
  vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  pool.grant(device_ref{1});
  test::blocked_stream far{device_ref{1}};
  void* const one = pool.allocate(far, 8 * MiB);
  pool.deallocate(far, one, 8 * MiB);
  const scoped_device elsewhere{device_ref{1}};
  const stream_ref null = stream_ref::legacy_default();
  REQUIRE(pool.allocate(null, 8 * MiB) == one);
  {
    const scoped_device here{first_device};
    CHECK_FALSE(null.is_done());
    far.release();
    null.synchronize();
  }
  pool.deallocate(null, one, 8 * MiB);
}

TEST_CASE(
    "vmm_pool_resource: a stream that ended unreported costs a wait, other errors are reported") {
  for (const int code :
       {hipErrorInvalidHandle, hipErrorContextIsDestroyed, hipErrorInvalidValue, hipErrorUnknown}) {
    CAPTURE(code);
    vmm_pool_resource pool{first_device, at_most(8 * MiB)};
    const stream first{first_device};
    const stream second{first_device};
    pool.deallocate(first, pool.allocate(first, 8 * MiB), 8 * MiB);
    // The end of the pool before waits for its device.
    drain_retired_memory();
    // Of the second stream it is asked whether it is captured, then of the first.
    const test::planned_fault fault{"hipStreamIsCapturing", 2, code};
    if (code == hipErrorUnknown) {
      CHECK_THROWS_AS(pool.allocate(second, 8 * MiB), hip_error);
    } else {
      const test::calls_of waits{test::device_waiting_functions};
      pool.deallocate(second, pool.allocate(second, 8 * MiB), 8 * MiB);
      CHECK(waits.count() >= 1);
    }
  }
}

namespace {
vmm_pool_resource* used_by_handler = nullptr;
void use_pool(const char*, int, const char*) noexcept {
  used_by_handler->deallocate_sync(used_by_handler->allocate_sync(4 * MiB), 4 * MiB);
  static_cast<void>(used_by_handler->access(first_device));
}
}  // namespace

TEST_CASE("vmm_pool_resource: the error handler may use the pool" * test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  pool.deallocate_sync(pool.allocate_sync(8 * MiB), 8 * MiB);
  used_by_handler = &pool;
  const error_handler before = set_error_handler(use_pool);
  {
    const test::planned_fault fault{"hipMemRelease", 1, hipErrorUnknown};
    pool.trim_to(0, std::chrono::steady_clock::now() + std::chrono::seconds{10});
    CHECK(fault.struck());
  }
  set_error_handler(before);
  CHECK(pool.statistics().reserved_current == 4 * MiB);
}

TEST_CASE("vmm_pool_resource: the error handler may make a pool while a stream ends") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);  // ~stream has waited, and no event is needed
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  static int made = 0;
  const error_handler before = set_error_handler([](const char*, int, const char*) noexcept {
    const vmm_pool_resource other{first_device, at_most(64 * MiB)};
    ++made;
  });
  {
    std::optional<stream> ends{first_device};
    pool.deallocate(*ends, pool.allocate(*ends, 8 * MiB), 8 * MiB);
    const test::planned_fault fault{"hipStreamIsCapturing", 1, hipErrorUnknown};
    ends.reset();
    CHECK(fault.struck());
  }
  set_error_handler(before);
  CHECK(made == 1);
}

namespace {

/// Sixteen blocks, all that there may be, every other one freed by work that is held.
struct pool_in_use {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  stream used{first_device};
  std::vector<void*> parts;
  test::held_streams held;

  pool_in_use() {
    for (int i = 0; i < 16; ++i) parts.push_back(pool.allocate(used, 4 * MiB));
    for (std::size_t i = 0; i < parts.size(); ++i)
      fill_async(used, parts[i], static_cast<unsigned char>(i), 4 * MiB);
    for (std::size_t i = 0; i < parts.size(); i += 2) pool.deallocate(used, parts[i], 4 * MiB);
  }
  ~pool_in_use() {
    held.release();
    for (std::size_t i = 1; i < parts.size(); i += 2) {
      const test::byte_vector written(4 * MiB, static_cast<unsigned char>(i));
      CHECK(test::read_bytes(used, parts[i], 4 * MiB) == written);
      pool.deallocate(used, parts[i], 4 * MiB);
    }
  }
};

}  // namespace

TEST_CASE("vmm_pool_resource: chunks move while work under way uses them, and nothing waits" *
          test::needs_virtual_memory) {
  pool_in_use it;
  const test::calls_of waits{test::waiting_functions};
  void* const large = it.pool.allocate(it.used, 32 * MiB);
  fill_async(it.used, large, 99, 32 * MiB);
  CHECK(waits.count() == 0);
  CHECK(it.pool.statistics().reserved_current == 64 * MiB);
  CHECK(it.pool.statistics().mapped_bytes > 64 * MiB);
  it.held.release();
  it.used.synchronize();
  hipvmm::detail::wait_for_background_tasks();
  CHECK(it.pool.statistics().mapped_bytes == 64 * MiB);
  CHECK(test::read_bytes(it.used, large, 32 * MiB) == test::byte_vector(32 * MiB, 99));
  it.pool.deallocate(it.used, large, 32 * MiB);
}

TEST_CASE("vmm_pool_resource: where two addresses are not coherent chunks move when work is done" *
          test::needs_virtual_memory) {
  const test::assumed_capability found{"coherent_aliases=no"};
  pool_in_use it;
  it.held.release();
  void* const large = it.pool.allocate(it.used, 32 * MiB);
  CHECK(it.pool.statistics().reserved_current == 64 * MiB);
  CHECK(it.pool.statistics().mapped_bytes == 64 * MiB);
  it.pool.deallocate(it.used, large, 32 * MiB);
}

TEST_CASE("vmm_pool_resource: it may end amid a move" * test::needs_virtual_memory) {
  const hipvmm_host_counters before = test::live_objects();
  {
    pool_in_use it;
    it.pool.deallocate(it.used, it.pool.allocate(it.used, 32 * MiB), 32 * MiB);
  }
  drain_retired_memory();
  CHECK(test::live_objects() == before);
}

TEST_CASE("vmm_pool_resource: its end waits for nothing and loses nothing") {
  const hipvmm_host_counters before = test::live_objects();
  {
    const stream used{first_device};
    test::held_streams held;
    {
      vmm_pool_resource pool{first_device, at_most(64 * MiB)};
      void* const one = pool.allocate(used, 8 * MiB);
      fill_async(used, one, 1, 8 * MiB);
      pool.deallocate(used, one, 8 * MiB);
    }
    held.release();
    drain_retired_memory();
  }
  CHECK(test::live_objects() == before);
}

TEST_CASE("vmm_pool_resource: random programs of many threads and streams keep their bytes") {
  std::mt19937 seeds = test::seeded_generator();
  const hipvmm_host_counters before = test::live_objects();
  constexpr pool_reuse rules[]{pool_reuse{}, pool_reuse{false, true, false},
                               pool_reuse{false, false, false}};
  for (int i = 0; i < 3 * test::random_rounds(3 * 4 * 150); ++i) {
    const pool_reuse reuse = rules[i % 3];
    pool_options options = at_most(48 * MiB);
    options.reuse = reuse;
    // With the worker beside them, too.
    if (!reuse.follow_event_dependencies) options.release_threshold = 4 * MiB;
    vmm_pool_resource memory{first_device, options};
    test::run_random_programs(memory, first_device, {20000, 3 * MiB}, seeds, 150);
    CHECK(memory.statistics().used_current == 0);
    CHECK(memory.statistics().reserved_high <= 48 * MiB);
  }
  drain_retired_memory();
  CHECK(test::live_objects() == before);
}

}  // namespace hipvmm::mr
