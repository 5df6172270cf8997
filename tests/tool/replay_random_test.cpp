// SPDX-License-Identifier: MIT
// Traces made at random, on every resource that the device has, with everything checked.
#include <barrier>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/process/temporary_folder.hpp"
#include "support/test.hpp"
#include "tool/replay/replay_checker.hpp"
#include "tool/replay/replay_job.hpp"
#include "tool/replay_traces.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t events = 2000;
constexpr std::size_t streams = 4;

/// Asks for blocks and frees them, all of them at the end, no more than `most_bytes` at a time.
void allocate_at_random(mr::memory_resource& resource, stream_ref used, std::mt19937& generator,
                        std::size_t times, std::size_t most_bytes) {
  struct block {
    void* pointer;
    std::size_t bytes;
  };
  std::vector<block> alive;
  std::size_t bytes_alive = 0;
  for (std::size_t i = 0; i < times || !alive.empty(); ++i) {
    const std::size_t bytes =
        1 + below(generator, most_bytes / (below(generator, 2) == 0 ? 4 : 400));
    if (i < times && bytes_alive + bytes <= most_bytes) {
      alive.push_back({resource.allocate(used, bytes), bytes});
      bytes_alive += bytes;
    } else {
      std::swap(alive[below(generator, alive.size())], alive.back());
      resource.deallocate(used, alive.back().pointer, alive.back().bytes);
      bytes_alive -= alive.back().bytes;
      alive.pop_back();
    }
  }
}

}  // namespace

/// Whether each pool has chunks of one size, which depends on the memory that the device has left.
bool has_equal_chunks() { return capability_of(device_ref{0}).needs(quirk::access_from_base); }

TEST_CASE("replay: a random trace passes the check on every resource") {
  std::mt19937 generator = seeded_generator();
  const tool::trace recorded = trace_of(random_rows(generator, events, streams));
  REQUIRE(recorded.events.size() == events);
  for (const tool::subject_kind& kind : tool::subject_kinds()) {
    for (const auto mode : {tool::replay_streams::real, tool::replay_streams::one}) {
      CAPTURE(kind.name);
      const auto subject = subject_named(kind.name);
      if (!subject) break;
      const tool::replay_options options{.streams = mode, .check_bytes = 64 * KiB};
      const tool::replay_result result = tool::replay(recorded, *subject, options);
      INFO("first failure: " << (result.failures.count() == 0
                                     ? std::string{}
                                     : result.failures.texts().front().text));
      CHECK(result.failures.count() == 0);
      CHECK(result.peak_requested == recorded.peak_requested);
      // `hip` asks the device for its free memory, which other processes allocate and free too.
      if (kind.name != "hip") CHECK(result.peak_physical >= result.peak_requested);
      CHECK(result.streams == (mode == tool::replay_streams::one ? 1 : recorded.streams));
      REQUIRE(result.checked.has_value());
      CHECK(result.checked->blocks == recorded.blocks.size());
      CHECK(result.checked->bytes_looked_at <= result.checked->bytes);
      // The bins take their memory at construction, if one chunk holds it.
      if (kind.name != "binning") CHECK(result.driver_call_count() > 0);
    }
  }
}

TEST_CASE("replay: each byte of blocks larger than the staging memory is looked at") {
  const std::size_t bytes = tool::block_checker::staging_bytes + 5;
  const tool::trace recorded =
      trace_of("0,0,allocate,a," + std::to_string(bytes) + ",5\n0,1,allocate,b,3,6\n0,2,free,a," +
               std::to_string(bytes) + ",5\n");
  const auto subject = subject_named("hip");
  REQUIRE(subject);
  const tool::replay_options options{.check_bytes = static_cast<std::size_t>(-1)};
  const tool::replay_result result = tool::replay(recorded, *subject, options);
  CHECK(result.failures.count() == 0);
  REQUIRE(result.checked.has_value());
  CHECK(result.checked->bytes_looked_at == bytes + 3);
}

TEST_CASE("replay: the log of a thread gives the memory that its run took") {
  const temporary_folder folder;
  const std::string path = folder.path() / "log.csv";
  std::mt19937 generator = seeded_generator();
  mr::vmm_pool_resource pool{device_ref{0}};
  {
    mr::logging_resource_adaptor logged{&pool, path};
    const stream used{device_ref{0}};
    allocate_at_random(logged, used, generator, 1000, 32 * MiB);
  }
  const std::size_t physical = pool.statistics().reserved_high;
  const tool::trace recorded = tool::read_trace(path);
  const auto subject = subject_named("pool");
  const tool::replay_result result = tool::replay(recorded, *subject, {});
  CHECK(result.failures.count() == 0);
  CHECK(result.peak_requested <= physical);
  // Whether a chunk moves or a new one is made depends on whether work has passed. Under load 44
  // MiB for 46 MiB were seen on AMD's runtime 7.2.4, and 48 MiB for 46 MiB on the host provider.
  const std::size_t slack = has_equal_chunks() ? 32 * MiB : 8 * MiB;
  CHECK(result.peak_physical <= physical + slack);
  CHECK(result.peak_physical + slack >= physical);
}

// Requests of threads at the same time come in one order or another. So all of them begin by
// holding together more than they ask for later, in any order: that is the peak, and as
// whole chunks of an empty pool it takes the same memory in every order.
TEST_CASE("replay: the log of threads gives the peak of their run") {
  constexpr std::size_t threads = 4, held = 4 * MiB, peak = threads * held;
  const temporary_folder folder;
  const std::string path = folder.path() / "log.csv";
  std::mt19937 generator = seeded_generator();
  mr::vmm_pool_resource pool{device_ref{0}};
  {
    mr::logging_resource_adaptor logged{&pool, path};
    std::barrier together{threads};
    const auto work = [&](std::uint32_t seed) {
      std::mt19937 own{seed};
      const stream used{device_ref{0}};
      void* const first = logged.allocate(used, held / 2);
      void* const second = logged.allocate(used, held / 2);
      together.arrive_and_wait();
      logged.deallocate(used, first, held / 2);
      logged.deallocate(used, second, held / 2);
      allocate_at_random(logged, used, own, 400, 1 * MiB);
    };
    std::vector<std::future<void>> running;
    for (std::size_t i = 0; i < threads; ++i)
      running.push_back(std::async(std::launch::async, work, generator()));
    for (auto& each : running) each.get();
  }
  const tool::trace recorded = tool::read_trace(path);
  const auto subject = subject_named("pool");
  const tool::replay_result result = tool::replay(recorded, *subject, {});
  CHECK(result.failures.count() == 0);
  CHECK(recorded.peak_requested == peak);
  CHECK(result.peak_requested == peak);
  if (!on_fallback() && !has_equal_chunks()) {
    CHECK(pool.statistics().reserved_high == peak);
    CHECK(result.peak_physical == peak);
  }
}

}  // namespace hipvmm::test
