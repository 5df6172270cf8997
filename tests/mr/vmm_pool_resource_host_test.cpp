// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <future>
#include <random>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/copy.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/core/event.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/vmm_pool_resource.hpp>
#include <hipvmm/vmm/retirement.hpp>
#include "support/blocked_stream.hpp"
#include "support/host_provider.hpp"
#include "support/random_seed.hpp"

// What only the host provider can tell: calls, held streams, and the order of all uses, which the
// checker judges where HIPVMM_HOST_CHECK=1 switches it on.
TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::mr {
namespace {

const device_ref device{0};

pool_options at_most(std::size_t bytes) {
  pool_options options;
  options.maximum_bytes = bytes;
  return options;
}

/// A pool whose every allocation is told to the checker.
class noted_pool {
 public:
  explicit noted_pool(const pool_options& options) : pool_{device, options} {}
  void* allocate(stream_ref stream, std::size_t bytes) {
    void* const pointer = pool_.allocate(stream, bytes);
    static_cast<void>(hipvmm_host_note_allocate(pointer, bytes, stream.get()));
    return pointer;
  }
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes) {
    static_cast<void>(hipvmm_host_note_deallocate(pointer, bytes, stream.get()));
    pool_.deallocate(stream, pointer, bytes);
  }
  vmm_pool_resource& pool() { return pool_; }

 private:
  vmm_pool_resource pool_;
};

/// A random program of one thread over its own streams: fills each block, and looks before it gives
/// it back that nobody else wrote there.
void run_program(noted_pool& memory, std::uint32_t seed, int steps) {
  struct owned {
    void* pointer;
    std::size_t bytes;
    std::size_t stream;
    unsigned char value;
  };
  std::mt19937 random{seed};
  const auto any = [&random](std::size_t limit) { return test::below(random, limit); };
  std::array<stream, 3> streams{stream{device}, stream{device}, stream{device}};
  std::vector<owned> live;
  const auto give_back = [&](std::size_t index) {
    owned one = live[index];
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    std::vector<unsigned char> seen(std::min<std::size_t>(one.bytes, 300));
    copy(streams[one.stream], seen.data(), one.pointer, seen.size());
    for (const unsigned char byte : seen) REQUIRE(byte == one.value);
    if (any(4) == 0) {
      // Another stream takes it over.
      const std::size_t next = any(streams.size());
      event passed{device};
      passed.record(streams[one.stream]);
      streams[next].wait(passed);
      one.stream = next;
    }
    memory.deallocate(streams[one.stream], one.pointer, one.bytes);
  };
  for (int i = 0; i < steps; ++i) {
    if (live.size() < 12 && any(2) == 0) {
      owned one{};
      one.bytes = any(3) == 0 ? 1 + any(3 * MiB) : 1 + any(20000);
      one.stream = any(streams.size());
      one.value = static_cast<unsigned char>(any(256));
      try {
        one.pointer = memory.allocate(streams[one.stream], one.bytes);
      } catch (const out_of_memory&) {
        if (!live.empty()) give_back(any(live.size()));
        continue;
      }
      fill_async(streams[one.stream], one.pointer, one.value, one.bytes);
      live.push_back(one);
    } else if (!live.empty()) {
      give_back(any(live.size()));
    }
    if (any(100) == 0) memory.pool().trim_to(any(32 * MiB));
  }
  while (!live.empty()) give_back(0);
  for (const stream& each : streams) memory.pool().forget_stream(each);
}

}  // namespace

TEST_CASE("vmm_pool_resource: reuse in the same stream makes no HIP call") {
  vmm_pool_resource pool{device, at_most(64 * MiB)};
  const stream used{device};
  for (const std::size_t bytes : {std::size_t{256}, 1 * MiB, 16 * MiB}) {
    pool.deallocate(used, pool.allocate(used, bytes), bytes);
    const test::call_counter calls{nullptr};
    for (int i = 0; i < 100; ++i) pool.deallocate(used, pool.allocate(used, bytes), bytes);
    CHECK(calls.count() == 0);
  }
}

TEST_CASE("vmm_pool_resource: another stream's memory is ordered, not waited for") {
  vmm_pool_resource pool{device, at_most(8 * MiB)};
  const stream first{device};
  const stream second{device};
  void* const one = pool.allocate(first, 8 * MiB);
  test::held_streams held;
  fill_async(first, one, 1, 8 * MiB);
  pool.deallocate(first, one, 8 * MiB);
  const test::calls_of waits{test::waiting_functions};
  void* const two = pool.allocate(second, 8 * MiB);
  CHECK(two == one);
  CHECK(waits.count() == 0);
  fill_async(second, two, 2, 8 * MiB);
  held.release();
  std::vector<unsigned char> seen(8 * MiB);
  copy(second, seen.data(), two, seen.size());
  CHECK(std::count(seen.begin(), seen.end(), 2) == static_cast<std::ptrdiff_t>(8 * MiB));
  pool.deallocate(second, two, 8 * MiB);
}

TEST_CASE("vmm_pool_resource: an address alone goes back in the stream that has the memory now") {
  for (const std::size_t bytes : {std::size_t{1000}, 5 * MiB}) {
    vmm_pool_resource pool{device, at_most(64 * MiB)};
    pool.set_reuse({false, false, false});
    const stream first{device};
    void* const one = pool.allocate(first, bytes);
    test::blocked_stream second{device};
    // The second stream has it from its own cache.
    pool.deallocate(second, one, bytes);
    REQUIRE(pool.allocate(second, bytes) == one);
    pool.deallocate(one);
    void* const two = pool.allocate(first, bytes);
    CHECK(two != one);
    pool.deallocate(first, two, bytes);
  }
}

TEST_CASE("vmm_pool_resource: an address alone whose stream is forgotten waits for all devices") {
  vmm_pool_resource pool{device, at_most(64 * MiB)};
  pool.grant(device_ref{1});
  void* one = nullptr;
  {
    const stream gone{device};
    one = pool.allocate(gone, 1000);
    pool.forget_stream(gone);
  }
  const test::call_counter waits{"hipDeviceSynchronize"};
  pool.deallocate(one);
  CHECK(waits.count() == 2);
  CHECK(pool.statistics().used_current == 0);
}

TEST_CASE("vmm_pool_resource: trim takes nothing away that work under way uses") {
  vmm_pool_resource pool{device, at_most(64 * MiB)};
  const stream used{device};
  void* const one = pool.allocate(used, 8 * MiB);
  test::held_streams held;
  fill_async(used, one, 1, 8 * MiB);
  pool.deallocate(used, one, 8 * MiB);
  CHECK(pool.trim_to(0) == 0);
  held.release();
  used.synchronize();
  CHECK(pool.trim_to(0) == 8 * MiB);
}

TEST_CASE("vmm_pool_resource: its end waits for nothing and loses nothing") {
  const hipvmm_host_counters before = test::live_objects();
  {
    const stream used{device};
    test::held_streams held;
    {
      vmm_pool_resource pool{device, at_most(64 * MiB)};
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
  for (const pool_reuse reuse :
       {pool_reuse{}, pool_reuse{false, true, false}, pool_reuse{false, false, false}}) {
    pool_options options = at_most(48 * MiB);
    options.reuse = reuse;
    noted_pool memory{options};
    std::vector<std::future<void>> running;
    for (int thread = 0; thread < 4; ++thread)
      running.push_back(std::async(std::launch::async, run_program, std::ref(memory),
                                   static_cast<std::uint32_t>(seeds()), 150));
    for (auto& each : running) each.get();
    CHECK(memory.pool().statistics().used_current == 0);
    CHECK(memory.pool().statistics().reserved_high <= 48 * MiB);
  }
  drain_retired_memory();
  CHECK(test::live_objects() == before);
}

}  // namespace hipvmm::mr

TEST_SUITE_END();
