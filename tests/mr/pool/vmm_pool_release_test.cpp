// SPDX-License-Identifier: MIT
#include "core/background_task.hpp"
#include "mr/mr_test.hpp"
#include "mr/pool/held_while_used.hpp"
#include "support/host/host_profile.hpp"
#include "support/rounds.hpp"

// When memory that a pool holds serves others again, and when it goes back to the device.
namespace hipvmm::mr {

using test::at_most;
using test::first_device;

TEST_CASE("vmm_pool_resource: memory without a stream is nobody's before its last use is over") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  // As much as a chunk has, so that nothing else serves the next request.
  constexpr std::size_t bytes = 8 * MiB;
  void* one = pool.allocate_sync(bytes);
  test::check_held_while_used(pool, one, bytes, [&] { pool.deallocate(one); });
  pool.trim_to(0, std::chrono::steady_clock::now() + std::chrono::seconds{10});
  one = pool.allocate_sync(bytes);
  test::check_held_while_used(pool, one, bytes, [&] { pool.deallocate_sync(one, bytes); });
  CHECK(pool.statistics().used_current == 0);
  // Then it is everybody's.
  const stream other{first_device};
  const std::size_t most = pool.maximum_bytes();
  if (!test::on_fallback()) pool.deallocate(other, pool.allocate(other, most), most);
}

TEST_CASE("vmm_pool_resource: asking a stream again and again leaves its threads' caches alone") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  const auto pair = [&] { pool.deallocate(used, pool.allocate(used, 1000), 1000); };
  const auto refills = [&] {
    return pool.statistics().served[static_cast<std::size_t>(pool_source::own_stream)];
  };
  pair();
  const auto before = refills();
  CHECK(before > 0);
  for (int i = 0; i < 50; ++i) {
    while (!used.is_done()) std::this_thread::yield();
    pair();
  }
  CHECK(refills() == before);
}

TEST_CASE("vmm_pool_resource: pairs without a stream use one block again and again") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  for (int i = 0; i < 100; ++i) pool.deallocate_sync(pool.allocate_sync(5 * MiB), 5 * MiB);
  CHECK(pool.statistics().reserved_high <= 16 * MiB);
}

TEST_CASE("vmm_pool_resource: trim releases idle memory, down to the bytes to keep" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, at_most(256 * MiB)};
  const stream used{first_device};
  // Memory allocated at once may be one chunk, which goes as a whole.
  void* low[4];
  for (void*& each : low) each = pool.allocate(used, 8 * MiB);
  void* const high = pool.allocate(used, 32 * MiB);
  CHECK(pool.trim_to(0) == 0);
  for (void* const each : low) pool.deallocate(used, each, 8 * MiB);
  used.synchronize();
  const std::size_t part = test::returns_chunks() ? 16 * MiB : 0;
  CHECK(pool.trim_to(48 * MiB) == part);
  CHECK(pool.trim_to(0) == part);
  CHECK(pool.statistics().reserved_current == 64 * MiB - 2 * part);
  void* const again = pool.allocate(used, 32 * MiB);
  fill_async(used, again, 1, 32 * MiB);
  used.synchronize();
  pool.deallocate(used, again, 32 * MiB);
  pool.deallocate(used, high, 32 * MiB);
  used.synchronize();
  pool.trim_to(16 * MiB);
  // Whole chunks go, or all of them.
  CHECK(pool.statistics().reserved_current >= 16 * MiB);
  CHECK(pool.statistics().reserved_current <= 32 * MiB);
  pool.trim_to(0);
  CHECK(pool.statistics().reserved_current == 0);
}

TEST_CASE("vmm_pool_resource: memory beyond the release threshold does not stay" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, at_most(256 * MiB)};
  const stream used{first_device};
  void* blocks[4];
  for (void*& each : blocks) each = pool.allocate(used, 8 * MiB);
  for (void* const each : blocks) pool.deallocate(used, each, 8 * MiB);
  CHECK(pool.statistics().reserved_current == 32 * MiB);
  used.synchronize();
  pool.set_release_threshold(8 * MiB);
  hipvmm::detail::wait_for_background_tasks();
  CHECK(pool.statistics().reserved_current == 8 * MiB);
  for (void*& each : blocks) each = pool.allocate_sync(8 * MiB);
  for (void* const each : blocks) pool.deallocate_sync(each, 8 * MiB);
  hipvmm::detail::wait_for_background_tasks();
  CHECK(pool.statistics().reserved_current == 8 * MiB);
}

TEST_CASE("vmm_pool_resource: small blocks beyond the release threshold do not stay either" *
          test::needs_virtual_memory) {
  pool_options options = at_most(256 * MiB);
  options.release_threshold = 0;
  vmm_pool_resource pool{first_device, options};
  const stream used{first_device};
  // The first are as many as the caches of a stream keep.
  for (const std::size_t count : {std::size_t{3}, std::size_t{1000}}) {
    CAPTURE(count);
    std::vector<void*> blocks(count);
    for (void*& each : blocks) each = pool.allocate(used, 32 * KiB);
    CHECK(pool.statistics().reserved_current > 0);
    for (void* const each : blocks) pool.deallocate(used, each, 32 * KiB);
    used.synchronize();
    hipvmm::detail::wait_for_background_tasks();
    CHECK(pool.statistics().reserved_current == 0);
  }
}

TEST_CASE("vmm_pool_resource: the largest requests that its numbers name are served") {
  for (int seed = 1; seed <= test::rounds(150); ++seed) {
    CAPTURE(seed);
    std::minstd_rand random{static_cast<unsigned>(seed)};
    vmm_pool_resource pool{first_device, at_most((16 + random() % 100) * MiB)};
    const std::array<stream, 3> users{stream{first_device}, stream{first_device},
                                      stream{first_device}};
    struct allocation {
      void* at;
      std::size_t bytes;
      const stream* in;
    };
    std::vector<allocation> all;
    for (int i = 0; i < 200; ++i) {
      if (random() % 2 != 0 && all.size() < 20) {
        const std::size_t bytes = 1 + random() % (random() % 3 != 0 ? 300000 : 12 * MiB);
        if (pool.statistics().largest_possible < 2 * bytes) continue;
        const stream& used = users[random() % users.size()];
        all.push_back({pool.allocate(used, bytes), bytes, &used});
      } else if (!all.empty()) {
        std::swap(all[random() % all.size()], all.back());
        pool.deallocate(*all.back().in, all.back().at, all.back().bytes);
        all.pop_back();
      }
    }
    for (const stream& each : users) each.synchronize();
    for (const auto figure : {&pool_statistics::largest_now, &pool_statistics::largest_moved,
                              &pool_statistics::largest_possible}) {
      // A chunk whose old address is unmapped in the background cannot move meanwhile.
      hipvmm::detail::wait_for_background_tasks();
      const pool_statistics before = pool.statistics();
      const std::size_t bytes = before.*figure;
      if (bytes == 0) continue;
      // The blocks of caches are free memory of their streams.
      std::size_t sum = before.used_current;
      for (const auto& each : before.streams) sum += each.free_bytes;
      CHECK(sum == before.reserved_current);
      void* one = nullptr;
      CHECK_NOTHROW(one = pool.allocate(users[0], bytes));
      const pool_statistics after = pool.statistics();
      // If an unmap waits for all streams a chunk may be on its way to the device meanwhile.
      const bool may_miss =
          figure == &pool_statistics::largest_moved && test::quirks::unmap_waits.holds();
      if (figure != &pool_statistics::largest_possible && !may_miss)
        CHECK(after.chunks_created == before.chunks_created);
      if (figure == &pool_statistics::largest_now) CHECK(after.chunks_moved == before.chunks_moved);
      if (one != nullptr) pool.deallocate(users[0], one, bytes);
      users[0].synchronize();
    }
    for (const allocation& each : all) pool.deallocate(*each.in, each.at, each.bytes);
  }
}

// AMD's runtime 6.4.3 takes an event of a destroyed stream for a part of the capture of a new one
// at its address, and ends that capture.
TEST_CASE("vmm_pool_resource: streams that have ended cost no capture of one at their address") {
  const test::error_recorder reported;
  vmm_pool_resource pool{first_device};
  const auto use = [&pool](stream_ref in) {
    for (const std::size_t bytes : {std::size_t{256}, test::granule(), 4 * test::granule()}) {
      void* const block = pool.allocate(in, bytes);
      fill_async(in, block, 1, bytes);
      pool.deallocate(in, block, bytes);
    }
  };
  int lost = 0;
  for (int round = 0; round < 20; ++round) {
    const bool is_foreign = round % 2 == 1;
    {
      stream used{first_device};
      use(used);
      if (is_foreign) {
        stream_ref{used}.synchronize();
        pool.forget_stream(used);
        REQUIRE(hipStreamDestroy(used.release()) == hipSuccess);
      }
    }
    const stream captured{first_device};
    const stream other{first_device};
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
    use(other);
    static_cast<void>(pool.statistics());
    hipGraph_t graph = nullptr;
    if (hipStreamEndCapture(captured.get(), &graph) != hipSuccess) ++lost;
    if (graph != nullptr) REQUIRE(hipGraphDestroy(graph) == hipSuccess);
    static_cast<void>(hipGetLastError());
  }
  CHECK(lost == 0);
  CHECK(reported.count() == 0);
}

}  // namespace hipvmm::mr
