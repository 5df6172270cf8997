// SPDX-License-Identifier: MIT
// Chunks that are kept for a time only, and calls that take them earlier.
#include <hipvmm/runtime/device_allocation.hpp>
#include "core/background_task.hpp"
#include "region/retirement.hpp"
#include "support/held_worker.hpp"
#include "support/host/host_test.hpp"
#include "support/region/region_contents.hpp"
#include "support/region/shared_cache.hpp"
#include "vmm/chunk_cache.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

void recycle_granules(chunk_cache& cache, std::size_t count, device_ref device = first_device) {
  std::vector<physical_chunk> chunks;
  for (std::size_t i = 0; i < count; ++i) chunks.push_back(cache.acquire(device, granule()));
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
}

std::size_t free_granules() { return align_down(first_device.free_memory(), granule()); }

TEST_CASE("chunk_cache: a chunk that nobody acquires is kept for the retention") {
  const std::uint64_t before = live_objects().handles;
  chunk_cache cache{GiB, 1h};
  recycle_granules(cache, 3);
  detail::cache_registry::release_expired(cache, clock::now() + 59min);
  CHECK(cache.statistics().chunks == 3);
  detail::cache_registry::release_expired(cache, clock::now() + 1h);
  CHECK(cache.statistics().chunks == 0);
  CHECK(cache.statistics().dropped == 3);
  CHECK(cache.statistics().expired == 3);
  CHECK(live_objects().handles == before);
}

TEST_CASE("chunk_cache: the retention counts from the last recycle") {
  chunk_cache cache{GiB, 1h};
  recycle_granules(cache, 2);
  physical_chunk again = cache.acquire(first_device, granule());
  const auto between = clock::now();
  while (clock::now() == between) std::this_thread::yield();
  cache.recycle(std::move(again));
  detail::cache_registry::release_expired(cache, between + 1h);
  CHECK(cache.statistics().chunks == 1);
  CHECK(cache.statistics().expired == 1);
}

TEST_CASE("chunk_cache: without a retention no time releases a chunk") {
  chunk_cache cache{GiB};
  CHECK(cache.retention() == chunk_cache::forever);
  recycle_granules(cache, 1);
  detail::cache_registry::release_expired(cache, clock::time_point::max());
  CHECK(cache.statistics().chunks == 1);
}

TEST_CASE("chunk_cache: a thread of the library releases what has expired on every device") {
  const std::uint64_t before = live_objects().handles;
  chunk_cache cache{GiB, 1ms};
  recycle_granules(cache, 40);
  recycle_granules(cache, 40, device_ref{1});
  detail::wait_for_background_tasks();
  CHECK(cache.statistics().chunks == 0);
  CHECK(cache.statistics().expired > 0);
  CHECK(live_objects().handles == before);
  // And once more after it went to sleep.
  recycle_granules(cache, 1);
  detail::wait_for_background_tasks();
  CHECK(live_objects().handles == before);
}

TEST_CASE("chunk_cache: a retention that begins or is shorter applies to what is kept already") {
  for (const std::chrono::milliseconds before :
       {chunk_cache::forever, std::chrono::milliseconds{1h}}) {
    chunk_cache cache{GiB, before};
    recycle_granules(cache, 2);
    CHECK(cache.retention() == before);
    cache.set_retention(1ms);
    CHECK(cache.retention() == 1ms);
    detail::wait_for_background_tasks();
    CHECK(cache.statistics().expired == 2);
  }
}

TEST_CASE("chunk_cache: a retention of zero keeps nothing") {
  chunk_cache cache{GiB, 1h};
  recycle_granules(cache, 2);
  cache.set_retention(0ms);
  CHECK(cache.statistics().chunks == 0);
  recycle_granules(cache, 1);
  CHECK(cache.statistics().chunks == 0);
  CHECK(cache.statistics().expired == 2);
  CHECK(cache.byte_limit() == GiB);
}

TEST_CASE("chunk_cache: extreme retentions are kept as they are meant") {
  chunk_cache cache{GiB, std::chrono::milliseconds::max() - 1ms};
  recycle_granules(cache, 1);
  detail::cache_registry::release_expired(cache, clock::now() + std::chrono::hours{24 * 365});
  CHECK(cache.statistics().chunks == 1);
  cache.set_retention(std::chrono::milliseconds::min());
  CHECK(cache.retention() == 0ms);
  CHECK(cache.statistics().chunks == 0);
}

TEST_CASE("chunk_cache: may be destroyed while chunks wait to expire, or are released") {
  const std::uint64_t before = live_objects().handles;
  for (int round = 0; round < 50; ++round) {
    chunk_cache waiting{GiB, 1h};
    chunk_cache expiring{GiB, 1ms};
    recycle_granules(waiting, 1);
    recycle_granules(expiring, 20);
    if (round % 2 == 0) detail::cache_registry::release_expired(expiring, clock::now() + 1h);
  }
  CHECK(live_objects().handles == before);
}

TEST_CASE("chunk_cache: the worker takes other tasks between the chunks that it releases") {
  chunk_cache cache{GiB, 1ms};
  std::size_t left = 0;
  detail::background_task between{[&] { left = cache.statistics().chunks; }};
  {
    held_worker held;
    recycle_granules(cache, 100);
    const auto expired = clock::now() + 2ms;
    while (clock::now() < expired) std::this_thread::yield();
    REQUIRE(between.submit());
  }
  detail::wait_for_background_tasks();
  CHECK(left > 0);
  CHECK(cache.statistics().chunks == 0);
}

TEST_CASE("chunk_cache: a release in the background that fails is reported, and others go on") {
  for (std::uint64_t nth = 1; nth <= 3; ++nth) {
    CAPTURE(nth);
    const error_recorder reported;
    chunk_cache cache{GiB, 1ms};
    const call_counter releases{"hipMemRelease"};
    {
      held_worker held;
      recycle_granules(cache, 3);
      const planned_fault fault{"hipMemRelease", nth, hipErrorUnknown};
      held.release();
      detail::wait_for_background_tasks();
      CHECK(fault.struck());
    }
    CHECK(releases.count() == 3);
    CHECK(cache.statistics().chunks == 0);
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors().front().call == "hipMemRelease");
    recycle_granules(cache, 1);
    detail::wait_for_background_tasks();
    CHECK(cache.statistics().expired == 4);
  }
}

TEST_CASE(
    "chunk_cache: releases for a shortage that fail are reported, and the shortage is thrown") {
  for (std::uint64_t nth = 1; nth <= 3; ++nth) {
    CAPTURE(nth);
    const shared_cache_keeps keeps;
    const error_recorder reported;
    recycle_granules(chunk_cache::shared(), 3);
    const planned_fault fault{"hipMemRelease", nth, hipErrorUnknown};
    CHECK_THROWS_AS(detail::acquire_with_retry([] {
                      return physical_chunk{first_device, free_granules() + 4 * granule()};
                    }),
                    out_of_memory);
    CHECK(fault.struck());
    CHECK(reported.count() == 1);
    CHECK(chunk_cache::shared().statistics().chunks == 0);
  }
}

TEST_CASE("chunk_cache: what expires while a stream is captured costs no capture") {
  chunk_cache cache{GiB, 1ms};
  const stream captured{first_device};
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 20; ++i) chunks.push_back(cache.acquire(first_device, granule()));
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
  detail::wait_for_background_tasks();
  CHECK(cache.statistics().expired == 20);
  end_capture(captured.get());
}

TEST_CASE("chunk_cache: an acquisition waits for the thread that trims rather than fail") {
  for (int round = 0; round < 100; ++round) {
    chunk_cache cache{64 * GiB};
    const std::size_t share = align_down(first_device.free_memory() / 16, granule());
    {
      std::vector<physical_chunk> chunks;
      for (int i = 0; i < 16; ++i) chunks.push_back(cache.acquire(first_device, share));
      for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
    }
    std::thread trimming{[&] { cache.trim(); }};
    try {
      static_cast<void>(cache.acquire(first_device, 16 * share));
    } catch (const out_of_memory&) {  // counted as refused
    }
    trimming.join();
    REQUIRE(cache.statistics().refused == 0);
  }
}

TEST_CASE("chunk_cache: a region that grows again gets what it released, without a creation") {
  const shared_cache_keeps keeps;
  const auto grow_and_end = [] {
    region grown{first_device, 15 * granule()};
    for (std::size_t bytes : {1, 2, 4, 8}) grown.commit((bytes - 1) * granule(), bytes * granule());
    grown.retire();
    drain_retired_memory();
  };
  grow_and_end();
  const call_counter creates{"hipMemCreate"};
  const call_counter releases{"hipMemRelease"};
  grow_and_end();
  CHECK(creates.count() == 0);
  CHECK(releases.count() == 0);
}

TEST_CASE("chunk_cache: growth behind a trim takes no new memory while that is kept") {
  // If memory comes back only with its addresses it would, without the cache.
  const shared_cache_keeps keeps;
  const stream stream;
  region grown{first_device, 8 * granule()};
  for (std::size_t index = 0; index < 8; ++index) grown.commit(index * granule(), granule());
  const std::size_t before = hipvmm_host_device_bytes(0);
  grown.trim(4 * granule(), stream);
  drain_retired_memory();
  for (std::size_t index = 4; index < 8; ++index) grown.commit(index * granule(), granule());
  CHECK(hipvmm_host_device_bytes(0) == before);
}

TEST_CASE("chunk_cache: all memory is back when regions have ended and their chunks expired") {
  const std::size_t before = hipvmm_host_device_bytes(0);
  {
    const shared_cache_keeps keeps{1ms};
    const stream stream;
    region first{first_device, 8 * granule()};
    region second{first_device, 8 * granule()};
    for (std::size_t index = 0; index < 8; ++index) first.commit(index * granule(), granule());
    first.trim(granule(), stream);
    drain_retired_memory();
    for (std::size_t index = 0; index < 4; ++index) second.commit(index * granule(), granule());
    first.retire();
    second.trim(0, stream);
    drain_retired_memory();
    detail::wait_for_background_tasks();
    second.retire();
    drain_retired_memory();
    detail::wait_for_background_tasks();
    CHECK(hipvmm_host_device_bytes(0) == before);
  }
}

/// Has chunk_cache::shared() keep half of the first device's free memory, in `chunks` chunks.
std::size_t keep_half(std::size_t chunks = 1) {
  const std::size_t bytes = align_down(free_granules() / 2 / chunks, granule());
  std::vector<physical_chunk> all;
  for (std::size_t i = 0; i < chunks; ++i)
    all.push_back(chunk_cache::shared().acquire(first_device, bytes));
  for (physical_chunk& each : all) chunk_cache::shared().recycle(std::move(each));
  REQUIRE(chunk_cache::shared().statistics(first_device).bytes == chunks * bytes);
  return chunks * bytes;
}

TEST_CASE("chunk_cache: a region with a cache of its own gets what the shared one keeps") {
  const shared_cache_keeps keeps;
  const std::size_t kept = keep_half();
  chunk_cache own{GiB};
  region grown{first_device, free_granules() + kept, {.cache = &own}};
  grown.commit(0, align_down(free_granules() + kept / 2, granule()));
  CHECK(chunk_cache::shared().statistics(first_device).bytes == 0);
}

TEST_CASE("chunk_cache: what runs out of the memory of one device leaves that of others") {
  const shared_cache_keeps keeps;
  recycle_granules(chunk_cache::shared(), 1, device_ref{1});
  recycle_granules(chunk_cache::shared(), 1);
  CHECK_THROWS_AS(detail::acquire_with_retry([] {
                    return physical_chunk{first_device, free_granules() + 2 * granule()};
                  }),
                  out_of_memory);
  CHECK(chunk_cache::shared().statistics(first_device).chunks == 0);
  CHECK(chunk_cache::shared().statistics(device_ref{1}).chunks == 1);
}

TEST_CASE("chunk_cache: what runs out of descriptors or of the host's memory gets all of it") {
  const shared_cache_keeps keeps;
  for (const exhausted what : {exhausted::descriptors, exhausted::host_memory}) {
    recycle_granules(chunk_cache::shared(), 1, device_ref{1});
    int tries = 0;
    CHECK_THROWS_AS(detail::acquire_with_retry([&]() -> int {
                      ++tries;
                      throw out_of_memory{what, 0, 1, 0, {}};
                    }),
                    out_of_memory);
    CHECK(chunk_cache::shared().statistics().chunks == 0);
    CHECK(tries == 2);
  }
}

TEST_CASE("chunk_cache: what is released for a shortage is tried again before retired memory") {
  const shared_cache_keeps keeps;
  const std::size_t kept = keep_half();
  const stream stream;
  region waiting{first_device, granule()};
  waiting.commit(0, granule());
  held_streams held;
  REQUIRE(hipMemsetAsync(waiting.base(), 1, granule(), stream.get()) == hipSuccess);
  waiting.retire();
  // It would wait for the stream that is held.
  const std::size_t wanted = align_down(free_granules() + kept / 2, granule());
  const physical_chunk made = detail::acquire_with_retry([wanted] {
    return physical_chunk{first_device, wanted};
  });
  CHECK(retired_memory().waiting == 1);
  held.release();
}

TEST_CASE("chunk_cache: retired memory that comes to be kept still serves who waits for it") {
  const shared_cache_keeps keeps;
  const stream stream;
  const std::size_t most = align_down(free_granules() / 2, granule());
  region waiting{first_device, most};
  waiting.commit(0, most);
  waiting.retire();
  const physical_chunk made = detail::acquire_with_retry([&] {
    return physical_chunk{first_device, most + most / granule() / 2 * granule()};
  });
  CHECK(made.bytes() > most);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
