// SPDX-License-Identifier: MIT
// Mappings that HIP refuses to unmap while a failure is undone: two faults in one operation.
#include <hipvmm/core/observers/memory_events.hpp>
#include "support/blocked_stream.hpp"
#include "support/host/host_test.hpp"
#include "support/region/region_contents.hpp"
#include "support/region/shared_cache.hpp"
#include "support/waiting_thread.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/refused_unmaps.hpp"
#include "vmm/vmm_test.hpp"

namespace hipvmm::test {
namespace {

void plan_faults(const std::string& plan) {
  REQUIRE(hipvmm_host_set_faults(plan.c_str()) == nullptr);
}

/// Whether HIP refused to end something that it is not asked to end again: no unmap, or one that it
/// refused when the addresses ended too.
bool has_lost_objects(const error_recorder& reported) {
  const auto errors = reported.errors();
  return errors.size() > 1 || (errors.size() == 1 && errors.front().call != "hipMemUnmap");
}

/// Five granules of sixteen are backed, in two chunks, the first with tags.
struct tagged_region {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  hipvmm::region region{first_device, 16 * unit};

  tagged_region() {
    region.grant(device_ref{1}, access_right::read);
    region.commit(0, 3 * unit);
    region.commit(5 * unit, 2 * unit);
    write_tags(region, 0, 3, 1, stream);
    stream.synchronize();
  }
  /// All of it can be backed, and nothing else is counted.
  void verify() {
    for (const std::size_t from : {5, 8}) {
      try {
        region.end_move(from * unit);
      } catch (const std::invalid_argument&) {
      }
    }
    region.commit(0, 16 * unit);
    CHECK(region.committed_bytes() == 16 * unit);
    CHECK(region.committed_from(0) == 16 * unit);
    CHECK(has_tag(region, 0, 1, stream));
    write_tags(region, 3, 16, 2, stream);
    for (std::size_t index = 3; index < 16; ++index) CHECK(has_tag(region, index, 2, stream));
  }
};

/// Fails each pair of HIP calls of an operation.
template <typename Operation>
void sweep_pairs(Operation operation) {
  release_idle_memory();
  constexpr std::uint64_t most_calls = 300;
  for (std::uint64_t first = 1;; ++first) {
    std::uint64_t second = first + 1;
    for (bool struck = true; struck; ++second) {
      REQUIRE(second < most_calls);
      INFO("HIP calls " << first << " and " << second << " fail");
      const hipvmm_host_counters outside = live_objects();
      const error_recorder reported;
      {
        tagged_region one;
        const call_counter calls{nullptr};
        plan_faults("any nth=" + std::to_string(first) +
                    " error=hipErrorOperatingSystem; any nth=" + std::to_string(second) +
                    " error=hipErrorOperatingSystem");
        try {
          operation(one.region, one);
        } catch (const std::exception&) {
        }
        drain_retired_memory();
        plan_faults("");
        struck = calls.count() >= second;
        static_cast<void>(hipGetLastError());
        REQUIRE(hipSetDevice(0) == hipSuccess);
        one.verify();
      }
      release_idle_memory();
      // Memory that HIP refused to release is lost, which was reported.
      if (!has_lost_objects(reported)) CHECK(live_objects() == outside);
    }
    if (second == first + 2) break;
  }
}

}  // namespace

TEST_CASE("region: an undo that HIP refuses costs no later commit" * needs_virtual_memory) {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  sweep_pairs([](region& of, const tagged_region& one) { of.commit(0, 12 * one.unit); });
}

TEST_CASE("region: an undone move that HIP refuses costs no later commit" * needs_virtual_memory) {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  sweep_pairs(
      [](region& of, const tagged_region& one) { of.move_chunk(5 * one.unit, 8 * one.unit); });
}

TEST_CASE("region: an undone preparation that HIP refuses costs no later commit" *
          needs_virtual_memory) {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  sweep_pairs([](region& of, const tagged_region& one) {
    of.prepare(2 * one.unit, prefetch_level::mapped);
    of.cancel_or_wait();
    of.decommit(15 * one.unit, one.unit);
  });
}

TEST_CASE("region: an undone extension that HIP refuses costs no later commit" *
          needs_virtual_memory) {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  sweep_pairs(
      [](region& of, const tagged_region& one) { of.extend(32 * one.unit, 10 * one.unit); });
}

TEST_CASE("region: retired chunks that HIP refuses to unmap cost no later commit" *
          needs_virtual_memory) {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  sweep_pairs([](region& of, const tagged_region& one) {
    of.trim(3 * one.unit, one.stream, tail_chunk::keep);
    drain_retired_memory();
  });
}

TEST_CASE("region: what HIP keeps refusing to unmap blocks only its own addresses" *
          needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(no_tail_access);
  release_idle_memory();
  const hipvmm_host_counters before = live_objects();
  {
    const std::size_t unit = granule();
    region one{first_device, 8 * unit};
    const error_recorder reported;
    plan_faults("hipMemSetAccess nth=1 error=hipErrorUnknown; hipMemUnmap error=hipErrorUnknown");
    CHECK_THROWS_WITH_AS(one.commit(0, unit), doctest::Contains("hipMemSetAccess"), hip_error);
    CHECK(reported.count() == 1);
    CHECK_THROWS_WITH_AS(one.commit(0, 2 * unit), doctest::Contains("hipMemUnmap"), hip_error);
    one.commit(4 * unit, unit);
    CHECK(one.committed_bytes() == unit);
    // It was reported once, and is thrown if it is in the way.
    CHECK(reported.count() == 1);
    // The memory is still there, and nobody else's.
    CHECK(live_objects().mappings == before.mappings + 2);
    CHECK(live_objects().handles == before.handles + 2);
    plan_faults("");
    one.commit(0, 2 * unit);
    CHECK(one.committed_bytes() == 3 * unit);
    CHECK(live_objects().mappings == before.mappings + 2);
  }
  release_idle_memory();
  CHECK(live_objects() == before);
}

HIPVMM_TEST_CASE_IN("region: a device that is full gets what others could not unmap",
                    {"HIPVMM_HOST_MEMORY=64MiB", "HIPVMM_HOST_PROFILE=strict"}) {
  region one{first_device, 32 * MiB};
  region two{first_device, 64 * MiB};
  const error_recorder reported;
  plan_faults(
      "hipMemSetAccess nth=1 error=hipErrorOperatingSystem; "
      "hipMemUnmap nth=1 error=hipErrorOperatingSystem");
  CHECK_THROWS_AS(one.commit(0, 8 * MiB), hip_error);
  plan_faults("");
  chunk_cache::shared().trim();
  REQUIRE(hipvmm_host_device_bytes(0) == 8 * MiB);
  two.commit(0, 64 * MiB, 2 * MiB);
  CHECK(hipvmm_host_device_bytes(0) == two.committed_bytes());
}

HIPVMM_TEST_CASE_IN("region: a callback may use a region of which others unmap something",
                    {"HIPVMM_HOST_PROFILE=strict"}) {
  const std::size_t unit = granule();
  region one{first_device, 8 * unit};
  const error_recorder reported;
  plan_faults(
      "hipMemSetAccess nth=1 error=hipErrorUnknown; hipMemUnmap nth=1 error=hipErrorUnknown");
  CHECK_THROWS_AS(one.commit(0, unit), hip_error);
  plan_faults("");
  const memory_event_subscription each{[&](const memory_event& event) {
    if (event.kind == memory_event_kind::unmap) one.commit(0, unit);
  }};
  drain_retired_memory();
  CHECK(one.committed_bytes() == unit);
}

TEST_CASE("chunk_pins: other threads ask for the bytes while chunks are mapped" *
          needs_virtual_memory) {
  std::vector<physical_chunk> chunks;
  while (chunks.size() < 64) chunks.emplace_back(first_device, granule());
  detail::chunk_pins pins;
  std::atomic<bool> is_over{false};
  watched_thread asking{[&] {
    while (!is_over) CHECK(pins.bytes() <= 64 * granule());
  }};
  for (int i = 0; i < 50; ++i) {
    for (const physical_chunk& each : chunks) CHECK(pins.add(each));
    CHECK(pins.bytes() == 64 * granule());
    pins.end();
  }
  is_over = true;
  asking.join();
  CHECK(pins.bytes() == 0);
}

TEST_CASE("refused_unmaps: a chunk is in use until the unmap that is tried again has returned" *
          needs_virtual_memory) {
  HIPVMM_SKIP_IF(!quirks::unmap_waits.holds(), "under this profile no unmap can be held up");
  const address_reservation addresses{granule()};
  physical_chunk chunk{first_device, granule()};
  mapping map{addresses, 0, chunk};
  const std::uint64_t mapped = live_objects().mappings;
  refused_unmaps refused;
  {
    const error_recorder reported;
    plan_faults("hipMemUnmap nth=1 error=hipErrorUnknown");
    refused.unmap_or_defer(map, chunk.get());
    plan_faults("");
    REQUIRE(reported.count() == 1);
  }
  REQUIRE_FALSE(refused.empty());
  blocked_stream work{first_device};
  watched_thread retried{[&] { refused.retry(addresses.get(), addresses.bytes()); }};
  REQUIRE(retried.comes_to_wait());
  REQUIRE(live_objects().mappings == mapped);
  // A chunk that take_if_mapped() does not take may be mapped elsewhere.
  std::uint64_t left = mapped;
  watched_thread keeping{[&] {
    const bool is_kept = refused.take_if_mapped(chunk);
    left = is_kept ? 0 : live_objects().mappings;
  }};
  keeping.comes_to_wait();
  work.release();
  keeping.join();
  CHECK(left < mapped);
  retried.join();
  CHECK(refused.empty());
}

}  // namespace hipvmm::test
