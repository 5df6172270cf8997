// SPDX-License-Identifier: MIT
#include <hipvmm/provider/host_control.h>
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "mr/mr_test.hpp"
#include "runtime/runtime_rules.hpp"
#include "support/device_bytes.hpp"
#include "support/host/host_test.hpp"
#include "support/region/assumed_capability.hpp"
#include "support/region/held_memory.hpp"
#include "support/region/region_contents.hpp"

// Pools that sleep and wake.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

mr::pool_options asleep_by(const memory_tag& tag, std::size_t most = 128 * MiB) {
  mr::pool_options options = at_most(most);
  options.tag = tag;
  return options;
}

/// A pool with a block of two chunks, small blocks in a third, and freed memory in a fourth.
struct sleeping_pool {
  static constexpr std::size_t small = 1000;
  memory_tag tag{"weights"};
  hipvmm::stream stream{first_device};
  mr::vmm_pool_resource pool{first_device, asleep_by(tag)};
  std::vector<void*> blocks;
  std::vector<std::size_t> sizes;

  sleeping_pool() {
    void* const free = pool.allocate(stream, 8 * MiB);
    add(4 * MiB + 512);
    add(small);
    add(small);
    add(3 * MiB);
    pool.deallocate(stream, free, 8 * MiB);
  }
  ~sleeping_pool() {
    while (!blocks.empty()) drop();
  }
  sleeping_pool& operator=(sleeping_pool&&) = delete;

  void add(std::size_t bytes) {
    void* const one = pool.allocate(stream, bytes);
    const auto seed = static_cast<std::uint32_t>(blocks.size());
    write_bytes(stream, one, pattern(256, seed));
    write_bytes(stream, advance(one, bytes - 256), pattern(256, 100 + seed));
    blocks.push_back(one);
    sizes.push_back(bytes);
  }
  void drop() {
    pool.deallocate(stream, blocks.back(), sizes.back());
    blocks.pop_back();
    sizes.pop_back();
  }
  [[nodiscard]] bool has_contents() const {
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      if (read_bytes(stream, blocks[i], 256) != pattern(256, i)) return false;
      if (read_bytes(stream, advance(blocks[i], sizes[i] - 256), 256) != pattern(256, 100 + i))
        return false;
    }
    return true;
  }
  [[nodiscard]] std::size_t used() const {
    std::size_t sum = 0;
    for (const std::size_t each : sizes) sum += each;
    return sum;
  }
  /// Everything works that needs memory.
  void check_awake() {
    CHECK_FALSE(tag.is_asleep());
    CHECK(has_contents());
    CHECK(tag.statistics().bytes_on_host == 0);
    for (const std::size_t bytes : {small, 100 * KiB, 12 * MiB}) {
      void* const one = pool.allocate(stream, bytes);
      write_bytes(stream, one, pattern(256, 7));
      CHECK(read_bytes(stream, one, 256) == pattern(256, 7));
      pool.deallocate(stream, one, bytes);
    }
    CHECK(has_contents());
  }
  void check_refuses() {
    std::string text;
    for (const std::size_t bytes : {small, 100 * KiB, 12 * MiB}) {
      CHECK_THROWS_AS(pool.allocate(stream, bytes), std::logic_error);
      CHECK_THROWS_AS(pool.allocate(stream_ref::per_thread_default(), bytes), std::logic_error);
    }
    CHECK_THROWS_AS(pool.allocate(stream, small, 4096), std::logic_error);
    text = text_thrown_by<std::logic_error>([&] { return pool.allocate_sync(small); });
    CHECK(text ==
          "vmm_pool_resource: the memory sleeps under the tag \"weights\": call resume() of its "
          "tag first");
  }
};

TEST_CASE_FIXTURE(sleeping_pool, "sleep: a pool's blocks come back at their addresses") {
  const std::size_t held = pool.statistics().reserved_current;
  const std::size_t before = first_device.free_memory();
  const std::size_t bytes = suspend(tag, keep::contents);
  CHECK(bytes != 0);
  if (returns_chunks()) CHECK(bytes < held);
  CHECK(first_device.free_memory() >= before + held);
  CHECK(tag.statistics().bytes_asleep == bytes);
  // Blocks are whole units, and the bytes between them are few.
  CHECK(tag.statistics().bytes_on_host >= used());
  CHECK(tag.statistics().bytes_on_host <= used() + 256 * KiB);
  CHECK(resume(tag) == bytes);
  CHECK(first_device.free_memory() <= before + (held - bytes));
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_pool,
                  "sleep: a pool whose contents are dropped costs the host nothing") {
  suspend(tag, keep::nothing);
  CHECK(tag.statistics().bytes_on_host == 0);
  resume(tag);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    write_bytes(stream, blocks[i], pattern(256, i));
    write_bytes(stream, advance(blocks[i], sizes[i] - 256), pattern(256, 100 + i));
  }
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_pool, "sleep: chunks of a pool are unmapped while others are copied") {
  if (!detail::rules_of_runtime().events_cover_copies) return;
  for (int i = 0; i < 3; ++i) add(24 * MiB);
  const call_counter unmaps{"hipMemUnmap"};
  {
    const planned_fault fault{"hipEventSynchronize", 3, hipErrorUnknown};
    CHECK_THROWS_AS(suspend(tag, keep::contents), hip_error);
  }
  CHECK(unmaps.count() != 0);
  check_awake();
  suspend(tag, keep::contents);
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_pool, "sleep: a pool refuses requests and takes memory back meanwhile") {
  suspend(tag, keep::contents);
  check_refuses();
  // Freed blocks go into no cache, from which a request would take them.
  drop();
  drop();
  drop();
  check_refuses();
  CHECK_THROWS_AS(pool.grant(first_device), std::logic_error);
  CHECK_THROWS_AS(pool.effective_access(), std::logic_error);
  CHECK_THROWS_AS(pool.export_chunks(), std::logic_error);
  CHECK_THROWS_AS(pool.export_block(blocks.front()), std::logic_error);
  CHECK(pool.trim_to(0) == 0);
  pool.set_release_threshold(0);
  CHECK(pool.statistics().used_current >= sizes.front());
  CHECK_FALSE(pool.snapshot().segments.empty());
  resume(tag);
  check_awake();
  pool.trim_to(0);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_pool, "sleep: a pool made meanwhile joins, and wakes with all") {
  suspend(tag, keep::contents);
  mr::pool_options options = asleep_by(tag);
  options.initial_bytes = 2 * MiB;
  CHECK_THROWS_AS((mr::vmm_pool_resource{first_device, options}), std::logic_error);
  mr::vmm_pool_resource late{first_device, asleep_by(tag)};
  CHECK_THROWS_AS(late.allocate(stream, small), std::logic_error);
  resume(tag);
  void* const one = late.allocate(stream, small);
  late.deallocate(stream, one, small);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_pool, "sleep: suspend waits for work on freed memory in any stream") {
  blocked_stream work{first_device};
  void* const freed = pool.allocate(work, 8 * MiB);
  fill_async(work, freed, 1, 64);
  pool.deallocate(work, freed, 8 * MiB);
  std::thread other{[&] { suspend(tag, keep::contents, stream); }};
  CHECK(comes_true([&] { return tag.phase() == tag_phase::falling_asleep; }));
  CHECK_FALSE(happens([&] { return tag.phase() != tag_phase::falling_asleep; }));
  work.release();
  other.join();
  CHECK(tag.is_asleep());
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_pool,
                  "sleep: memory freed in a stream before is reused in order after") {
  hipvmm::stream second{first_device};
  void* const freed = pool.allocate(second, 2 * MiB);
  pool.deallocate(second, freed, 2 * MiB);
  suspend(tag, keep::contents);
  drop();  // in a stream, while it sleeps
  resume(tag);
  check_awake();
  void* const again = pool.allocate(second, 2 * MiB);
  write_bytes(second, again, pattern(256, 1));
  pool.deallocate(second, again, 2 * MiB);
}

TEST_CASE("sleep: chunks that have moved sleep at one address") {
  HIPVMM_REQUIRE_ANY_LAYOUT();  // else all chunks have one size, larger than these
  const memory_tag tag;
  const stream stream{first_device};
  mr::pool_options options = asleep_by(tag, 32 * MiB);
  options.largest_chunk = 4 * MiB;
  mr::vmm_pool_resource pool{first_device, options};
  std::vector<void*> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(pool.allocate(stream, 4 * MiB));
  for (std::size_t i = 0; i < parts.size(); i += 2) pool.deallocate(stream, parts[i], 4 * MiB);
  // Their old addresses stay while the work that was there before may go on.
  blocked_stream work{first_device};
  void* const large = pool.allocate(work, 16 * MiB);
  CHECK(pool.statistics().chunks_moved != 0);
  write_bytes(stream, parts[1], pattern(256, 1));
  work.release();
  suspend(tag, keep::contents);
  resume(tag);
  CHECK(read_bytes(stream, parts[1], 256) == pattern(256, 1));
  pool.deallocate(stream, large, 16 * MiB);
  for (std::size_t i = 1; i < parts.size(); i += 2) pool.deallocate(stream, parts[i], 4 * MiB);
}

TEST_CASE_FIXTURE(sleeping_pool, "sleep: a captured graph is launched again behind a pool's wake") {
  hipvmm::stream captured{first_device};
  hipGraph_t graph = nullptr;
  hipGraphExec_t runs = nullptr;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  void* const scratch = pool.allocate(captured, 256);
  copy_async(captured, scratch, blocks[3], 256);
  copy_async(captured, blocks[0], scratch, 256);
  REQUIRE(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
  REQUIRE(hipGraphInstantiate(&runs, graph, nullptr, nullptr, 0) == hipSuccess);
  for (int round = 0; round < 2; ++round) {
    write_bytes(stream, blocks[0], pattern(256, 0));
    suspend(tag, keep::contents);
    resume(tag);
    CHECK(has_contents());
    REQUIRE(hipGraphLaunch(runs, captured.get()) == hipSuccess);
    captured.synchronize();
    CHECK(read_bytes(stream, blocks[0], 256) == pattern(256, 3));
  }
  CHECK(hipGraphExecDestroy(runs) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
  pool.deallocate(stream, scratch, 256);
}

TEST_CASE_FIXTURE(sleeping_pool, "sleep: what is freed between blocks is no use after free") {
  void* between[3] = {};
  for (void*& each : between) each = pool.allocate(stream, small);
  pool.deallocate(stream, between[1], small);
  const std::uint64_t reports = hipvmm_host_order_reports();
  suspend(tag, keep::contents);
  resume(tag);
  CHECK(hipvmm_host_order_reports() == reports);
  for (void* const each : {between[0], between[2]}) pool.deallocate(stream, each, small);
  check_awake();
}

/// Asks for memory again and again while another thread lets it sleep and wake.
void meet_suspends(std::size_t bytes) {
  CAPTURE(bytes);
  const memory_tag tag;
  mr::vmm_pool_resource pool{first_device, asleep_by(tag)};
  const hipvmm::stream stream{first_device};
  std::atomic<bool> ended{false};
  std::thread other{[&] {
    for (int i = 0; i < 300; ++i) {
      suspend(tag, keep::nothing, stream);
      resume(tag);
      // The request is somewhere between its first look for free memory and its last.
      for (int spins = i % 100 * 20; spins > 0; --spins)
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ended = true;
  }};
  while (!ended) {
    try {
      pool.deallocate(stream, pool.allocate(stream, bytes), bytes);
    } catch (const std::logic_error&) {
      std::this_thread::yield();
    }
  }
  other.join();
  CHECK(pool.statistics().used_current == 0);
  pool.trim_to(0);
  CHECK(pool.statistics().reserved_current == 0);
}

TEST_CASE("sleep: a request that meets a suspend in another thread is served whole or refused") {
  meet_suspends(sleeping_pool::small);
  meet_suspends(3 * MiB);
}

TEST_CASE(
    "sleep: a pool that falls asleep in another thread exports nothing and keeps its rights") {
  const memory_tag tag;
  const stream stream{first_device};
  mr::pool_options options = asleep_by(tag);
  if (capability_of(first_device).has(trait::shares_chunks))
    options.shareable = handle_type::posix_fd;
  mr::vmm_pool_resource pool{first_device, options};
  void* const one = pool.allocate(stream, 2 * MiB);
  blocked_stream last{first_device};
  std::thread other{[&] { suspend(tag, keep::nothing, last); }};
  const auto refuses = [&] {
    try {
      pool.deallocate(stream, pool.allocate(stream, MiB), MiB);
      return false;
    } catch (const std::logic_error&) {
      return true;
    }
  };
  CHECK(comes_true(refuses));
  // Else the memory would be lent to others when it is gone.
  CHECK_THROWS_AS(pool.export_block(one), std::logic_error);
  CHECK_THROWS_AS(pool.export_chunks(), std::logic_error);
  CHECK_THROWS_AS(pool.effective_access(), std::logic_error);
  CHECK_THROWS_AS(pool.grant(first_device, access_right::read), std::logic_error);
  CHECK_THROWS_AS(pool.set_access({}), std::logic_error);
  CHECK(pool.chunks().empty());
  last.release();
  other.join();
  resume(tag);
  CHECK_FALSE(pool.chunks().empty());
  CHECK(pool.access(first_device) == access_right::read_write);
  pool.deallocate(stream, one, 2 * MiB);
}

TEST_CASE("sleep: a pool may end while it sleeps") {
  const hipvmm_host_counters before = live_objects();
  {
    const memory_tag tag;
    const stream stream{first_device};
    mr::vmm_pool_resource pool{first_device, asleep_by(tag)};
    void* const one = pool.allocate(stream, 4 * MiB);
    suspend(tag, keep::contents);
    pool.deallocate(stream, one, 4 * MiB);
  }
  drain_retired_memory();
  CHECK(live_objects() == before);
}

TEST_CASE("sleep: a device_uvector sleeps by its pool") {
  const memory_tag tag;
  const stream stream{first_device};
  mr::vmm_pool_resource pool{first_device, asleep_by(tag)};
  device_uvector<unsigned char> vector{5000, stream, &pool};
  const auto* const data = vector.data();
  write_bytes(stream, vector.data(), pattern(5000, 1));
  suspend(tag, keep::contents, stream);
  CHECK_THROWS_AS(vector.resize(9000, stream), std::logic_error);
  resume(tag);
  CHECK(vector.data() == data);
  CHECK(read_bytes(stream, data, 5000) == pattern(5000, 1));
  vector.resize(9000, stream);
}

TEST_CASE("sleep: slabs take no tag") {
  mr::pool_options options = asleep_by(memory_tag{});
  options.fallback = without_vmm::always;
  const std::string text = text_thrown_by<unsupported>([&] {
    const mr::vmm_pool_resource pool{first_device, options};
  });
  CHECK(text.find("pool_options::tag: only chunks sleep") == 0);
}

TEST_CASE("sleep: a pool with an exported block is refused, and awake") {
  if (!capability_of(first_device).has(trait::shares_chunks)) return;
  const memory_tag tag;
  const stream stream{first_device};
  mr::pool_options options = asleep_by(tag);
  options.shareable = handle_type::posix_fd;
  mr::vmm_pool_resource pool{first_device, options};
  void* const one = pool.allocate(stream, 2 * MiB);
  static_cast<void>(pool.export_block(one));
  CHECK_THROWS_AS(suspend(tag, keep::contents), std::invalid_argument);
  CHECK_FALSE(tag.is_asleep());
  void* const other = pool.allocate(stream, 2 * MiB);
  pool.deallocate(stream, other, 2 * MiB);
  pool.deallocate(stream, one, 2 * MiB);
}

TEST_CASE("sleep: a pool's memory returns where it returns with the addresses only") {
  const assumed_capability assumed{kept_memory};
  sleeping_pool subject;
  const std::size_t held = subject.pool.statistics().reserved_current;
  const call_counter frees{"hipMemAddressFree"};
  CHECK(suspend(subject.tag, keep::contents) == held);
  CHECK(frees.count() != 0);
  subject.check_refuses();
  CHECK(resume(subject.tag) == held);
  subject.check_awake();
}

/// A pool of one used chunk, and one freed: a sweep repeats everything for every call of HIP.
struct swept_pool {
  static constexpr std::size_t small = 300;
  memory_tag tag;
  hipvmm::stream stream{first_device};
  mr::vmm_pool_resource pool{first_device, small_chunks(tag)};
  void* first = pool.allocate(stream, small);

  swept_pool() {
    void* const freed = pool.allocate(stream, 2 * MiB);
    write_bytes(stream, first, pattern(small, 1));
    pool.deallocate(stream, freed, 2 * MiB);
    stream.synchronize();
  }
  ~swept_pool() { pool.deallocate(stream, first, small); }
  swept_pool& operator=(swept_pool&&) = delete;

  [[nodiscard]] static mr::pool_options small_chunks(const memory_tag& tag) {
    mr::pool_options options = asleep_by(tag, 8 * MiB);
    options.largest_chunk = 2 * MiB;
    return options;
  }
  void check_awake() {
    CHECK_FALSE(tag.is_asleep());
    CHECK(read_bytes(stream, first, small) == pattern(small, 1));
    void* const one = pool.allocate(stream, 2 * MiB);
    fill_async(stream, one, 1, 64);
    pool.deallocate(stream, one, 2 * MiB);
  }
  void check_sleeps_whole() {
    CHECK(tag.is_asleep());
    CHECK_THROWS_AS(pool.allocate(stream, small), std::logic_error);
    resume(tag);
    check_awake();
  }
};

void sweep_pool(const char* what) {
  const bool wakes = std::string{what} == "resume";
  fault_sweep{what, after_failure::capacity}.run(
      [&] {
        auto result = std::make_unique<swept_pool>();
        if (wakes) suspend(result->tag, keep::contents);
        return result;
      },
      [&](auto& subject) { wakes ? resume(subject.tag) : suspend(subject.tag, keep::contents); },
      [&](auto& subject) { wakes ? subject.check_sleeps_whole() : subject.check_awake(); },
      [&](auto& subject) { wakes ? subject.check_awake() : subject.check_sleeps_whole(); });
}

TEST_CASE("sleep: a suspend of a pool that fails leaves it awake") { sweep_pool("suspend"); }
TEST_CASE("sleep: a resume of a pool that fails leaves it asleep") { sweep_pool("resume"); }
TEST_CASE("sleep: a pool's failures where memory returns with the addresses only") {
  const assumed_capability assumed{kept_memory};
  sweep_pool("suspend");
  sweep_pool("resume");
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
