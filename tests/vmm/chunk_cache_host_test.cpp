// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_cache.hpp>

#include <hipvmm/vmm/shareable_handle.hpp>
#include "core/descriptors.hpp"
#include "support/host/host_test.hpp"
#include "support/process/descriptor_limit.hpp"
#include "vmm/address_reservation.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

TEST_CASE("chunk_cache: destruction gives every chunk back to the driver") {
  const hipvmm_host_counters before = live_objects();
  {
    chunk_cache cache{GiB};
    cache.recycle(cache.acquire(first_device, granule()));
    cache.recycle(cache.acquire(first_device, 2 * granule()));
    CHECK(live_objects().handles == before.handles + 2);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("chunk_cache: what trim says was released is free on the device") {
  chunk_cache cache{GiB};
  cache.recycle(cache.acquire(first_device, 8 * granule()));
  const std::size_t before = hipvmm_host_device_bytes(0);
  CHECK(cache.trim() == 8 * granule());
  CHECK(hipvmm_host_device_bytes(0) == before - 8 * granule());
}

TEST_CASE("chunk_cache: keeps a shareable chunk until it was exported") {
  chunk_cache cache{GiB};
  cache.recycle(cache.acquire(first_device, granule(), handle_type::posix_fd));
  CHECK(cache.statistics().chunks == 1);
  physical_chunk chunk = cache.acquire(first_device, granule(), handle_type::posix_fd);
  const std::uint64_t live = live_objects().handles;
  { const shareable_handle handle{chunk}; }
  cache.recycle(std::move(chunk));
  CHECK(cache.statistics().chunks == 0);
  CHECK(cache.statistics().dropped == 1);
  CHECK(live_objects().handles == live - 1);
}

TEST_CASE("chunk_cache: a full device gets back what the cache holds of it, and of no other") {
  chunk_cache cache{64 * GiB};
  cache.recycle(cache.acquire(device_ref{1}, granule()));
  const std::size_t half = align_down(first_device.free_memory() / 2, granule());
  cache.recycle(cache.acquire(first_device, half));
  const physical_chunk whole = cache.acquire(first_device, 2 * half);
  CHECK(whole.bytes() == 2 * half);
  CHECK(cache.statistics(first_device).bytes == 0);
  CHECK(cache.statistics(device_ref{1}).bytes == granule());
  CHECK(cache.statistics(first_device).refused == 0);
  CHECK(cache.statistics(first_device).misses == 2);
}

TEST_CASE("chunk_cache: a device that stays full throws out_of_memory") {
  chunk_cache cache{64 * GiB};
  const physical_chunk all{first_device, align_down(first_device.free_memory(), granule())};
  CHECK_THROWS_AS(static_cast<void>(cache.acquire(first_device, granule())), out_of_memory);
  CHECK(cache.statistics().refused == 1);
  CHECK(cache.statistics().misses == 1);
}

TEST_CASE("chunk_cache: threads that fill a device at once all get what the cache releases") {
  // The threads want all chunks of the cache. A thread that finds the device full while another
  // one gives the chunks back has to wait for it, not to fail.
  constexpr std::size_t workers = 4;
  for (int round = 0; round < 50; ++round) {
    chunk_cache cache{64 * GiB};
    const std::size_t share = align_down(first_device.free_memory() / (2 * workers), granule());
    {
      std::vector<physical_chunk> chunks;
      for (std::size_t i = 0; i < 2 * workers; ++i)
        chunks.push_back(cache.acquire(first_device, share));
      for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
    }
    std::array<physical_chunk, workers> got;
    in_a_thread_each(got, [&](physical_chunk& each) {
      try {
        each = cache.acquire(first_device, 2 * share);
      } catch (const out_of_memory&) {  // counted as refused
      }
    });
    REQUIRE(cache.statistics().refused == 0);
    for (const physical_chunk& each : got) REQUIRE(each.bytes() == 2 * share);
  }
}

TEST_CASE("chunk_cache: the error handler may acquire while chunks are released") {
  static chunk_cache* used = nullptr;
  static bool refused = false;
  chunk_cache cache{GiB};
  used = &cache;
  cache.recycle(cache.acquire(first_device, granule()));
  const physical_chunk rest{first_device, align_down(first_device.free_memory(), granule())};
  const error_handler previous = set_error_handler([](const char*, int, const char*) noexcept {
    try {
      static_cast<void>(used->acquire(first_device, 2 * granule()));
    } catch (const out_of_memory&) {
      refused = true;
    }
  });
  const planned_fault fault{"hipMemRelease", 1, hipErrorUnknown};
  CHECK_THROWS_AS(static_cast<void>(cache.acquire(first_device, 2 * granule())), out_of_memory);
  set_error_handler(previous);
  CHECK(fault.struck());
  CHECK(refused);
}

TEST_CASE("chunk_cache: the error handler may wait for another thread that releases") {
  static chunk_cache* used = nullptr;
  static std::thread other;
  static std::atomic<bool> has_released{false};
  static bool in_time = false;
  chunk_cache cache{GiB};
  used = &cache;
  cache.recycle(cache.acquire(device_ref{1}, granule()));
  const error_handler previous = set_error_handler([](const char*, int, const char*) noexcept {
    other = std::thread{[] {
      used->trim();
      has_released = true;
    }};
    in_time = comes_true([] { return has_released.load(); }, std::chrono::seconds{3});
  });
  const planned_fault fault{"hipMemRelease", 1, hipErrorUnknown};
  cache.trim();
  set_error_handler(previous);
  REQUIRE(fault.struck());
  REQUIRE(other.joinable());
  other.join();
  CHECK(in_time);
}

/// Takes `count` chunks of a granule from the cache and brings them back.
void fill(chunk_cache& cache, device_ref device, std::size_t count, handle_type shareable) {
  std::vector<physical_chunk> chunks;
  for (std::size_t i = 0; i < count; ++i)
    chunks.push_back(cache.acquire(device, granule(), shareable));
  for (physical_chunk& chunk : chunks) cache.recycle(std::move(chunk));
}

TEST_CASE("chunk_cache: keeps no more chunks that cost descriptors than half of the limit") {
  chunk_cache cache{GiB};
  const std::size_t most = 2 * (lowest_free_descriptor() + 40);
  const descriptor_limit limit{most};
  const std::uint64_t before = live_objects().descriptors;
  fill(cache, first_device, most / 2 + 10, handle_type::posix_fd);
  CHECK(cache.statistics().chunks <= most / 2);
  CHECK(cache.statistics().chunks > 0);
  CHECK(live_objects().descriptors == before + cache.statistics().chunks);
}

TEST_CASE("chunk_cache: keeps chunks that cost no descriptor beyond half of the limit") {
  HIPVMM_SKIP_UNDER(chunks_take_descriptors);
  chunk_cache cache{GiB};
  const std::size_t most = 2 * (lowest_free_descriptor() + 10);
  const descriptor_limit limit{most};
  fill(cache, first_device, 2 * most, handle_type::none);
  CHECK(cache.statistics().chunks == 2 * most);
  CHECK(cache.statistics().dropped == 0);
}

TEST_CASE("chunk_cache: a limit of descriptors that the program lowers holds from then on") {
  chunk_cache cache{GiB};
  // Cases before may have left chunks that HIP would not unmap.
  const std::size_t most = lowest_free_descriptor() + 80;
  fill(cache, first_device, 60, handle_type::posix_fd);
  CHECK(cache.statistics().chunks == 60);
  const descriptor_limit limit{most};
  cache.recycle(cache.acquire(first_device, 2 * granule(), handle_type::none));
  CHECK(cache.statistics().chunks <= most / 2);
  CHECK(cache.statistics().chunks < 60);
  CHECK(cache.statistics().chunks > 20);
}

TEST_CASE("chunk_cache: leaves a quarter of the descriptors to a program that has many open") {
  chunk_cache cache{GiB};
  const std::size_t most = 4 * (lowest_free_descriptor() + 50);
  const descriptor_limit limit{most};
  std::vector<physical_chunk> in_use;
  while (lowest_free_descriptor() < most * 6 / 10)
    in_use.push_back(cache.acquire(first_device, granule(), handle_type::posix_fd));
  fill(cache, first_device, most * 3 / 10, handle_type::posix_fd);
  CHECK(cache.statistics().chunks > 0);
  // About a quarter: a 32nd is not counted for each chunk.
  CHECK(detail::free_descriptors(most, most) >= most / 4 - most / 32);
}

TEST_CASE("chunk_cache: each device has a share of the descriptors") {
  chunk_cache cache{GiB};
  const std::size_t most = 4 * (lowest_free_descriptor() + 20);
  const descriptor_limit limit{most};
  fill(cache, device_ref{1}, most / 8, handle_type::posix_fd);
  fill(cache, first_device, most / 2, handle_type::posix_fd);
  CHECK(cache.statistics().chunks <= most / 2);
  CHECK(cache.statistics(device_ref{1}).chunks == most / 8);
}

TEST_CASE("chunk_cache: a device that keeps half of the descriptors goes down to its share") {
  chunk_cache cache{GiB};
  const std::size_t open = lowest_free_descriptor();
  const std::size_t most = 4 * (open + 20);
  const descriptor_limit limit{most};
  cache.recycle(cache.acquire(device_ref{1}, granule(), handle_type::posix_fd));
  // With nothing in use no chunk costs another device anything until half are open.
  fill(cache, first_device, most / 2 - open - 5, handle_type::posix_fd);
  REQUIRE(cache.statistics().dropped == 0);
  for (std::size_t size = 2; cache.statistics().dropped == 0; ++size) {
    REQUIRE(size < 20);
    cache.recycle(cache.acquire(first_device, size * granule(), handle_type::posix_fd));
  }
  CHECK(cache.statistics(first_device).chunks <= most / 2 / 2);
  CHECK(cache.statistics(device_ref{1}).chunks == 1);
}

TEST_CASE("chunk_cache: a lack of descriptors takes what it holds of all devices") {
  chunk_cache cache{GiB};
  cache.recycle(cache.acquire(device_ref{1}, granule(), handle_type::posix_fd));
  const no_descriptors_left limit;
  const physical_chunk chunk = cache.acquire(first_device, granule(), handle_type::posix_fd);
  CHECK_FALSE(chunk.empty());
  CHECK(cache.statistics().chunks == 0);
  CHECK(cache.statistics().refused == 0);
}

TEST_CASE("chunk_cache: a lack of descriptors to the end throws out_of_memory that says so") {
  chunk_cache cache{GiB};
  const physical_chunk warm_up = cache.acquire(first_device, granule(), handle_type::posix_fd);
  const no_descriptors_left limit;
  const auto error = thrown_by<out_of_memory>(
      [&] { return cache.acquire(first_device, granule(), handle_type::posix_fd); });
  CHECK(error.resource() == exhausted::descriptors);
  CHECK(cache.statistics().refused == 1);
}

// Chunks whose memory returns only with addresses, as up to ROCm 7.2.
TEST_CASE("chunk_cache: trims pass over pinned chunks and drop them by age once unpinned") {
  chunk_cache cache{GiB};
  detail::chunk_pins pins;
  std::vector<physical_chunk> chunks;
  for (int i = 0; i < 4; ++i) chunks.push_back(cache.acquire(first_device, granule()));
  for (const std::size_t pinned : {0U, 2U}) REQUIRE(pins.add(chunks[pinned]));
  for (physical_chunk& each : chunks) cache.recycle(std::move(each));
  CHECK(cache.trim(3 * granule()) == granule());
  CHECK(cache.trim() == granule());
  CHECK(cache.trim() == 0);
  CHECK(cache.statistics().chunks == 2);
  physical_chunk young = cache.acquire(first_device, 2 * granule());
  cache.recycle(std::move(young));
  pins.end();
  CHECK(cache.statistics().chunks == 3);
  // The two that were pinned are the older ones.
  CHECK(cache.trim(2 * granule()) == 2 * granule());
  CHECK(cache.statistics().bytes == 2 * granule());
}

TEST_CASE("chunk_cache: a pinned chunk is taken before others of its size") {
  chunk_cache cache{GiB};
  detail::chunk_pins pins;
  physical_chunk older = cache.acquire(first_device, granule());
  physical_chunk pinned = cache.acquire(first_device, granule());
  const auto* const handle = pinned.get();
  REQUIRE(pins.add(pinned));
  cache.recycle(std::move(older));
  cache.recycle(std::move(pinned));
  const physical_chunk taken = cache.acquire(first_device, granule());
  CHECK(taken.get() == handle);
  CHECK(cache.statistics().chunks == 1);
}

TEST_CASE("chunk_cache: an acquisition that fails changes nothing that other devices hold") {
  fault_sweep{"acquire", after_failure::capacity}.run(
      [] {
        auto cache = std::make_unique<chunk_cache>(GiB);
        cache->recycle(cache->acquire(device_ref{1}, granule()));
        return cache;
      },
      [](auto& cache) { static_cast<void>(cache.acquire(first_device, 2 * granule())); },
      [](auto& cache) { CHECK(cache.statistics().bytes == granule()); },
      [](auto& cache) { CHECK(cache.statistics().bytes == granule()); });
}

TEST_CASE("chunk_cache: a release that fails is reported") {
  fault_sweep{"trim"}.run(
      [] {
        auto cache = std::make_unique<chunk_cache>(GiB);
        cache->recycle(cache->acquire(first_device, granule()));
        cache->recycle(cache->acquire(first_device, 2 * granule()));
        return cache;
      },
      [](auto& cache) { cache.trim(); }, [](auto&) { FAIL("trim must not throw"); },
      [](auto& cache) { CHECK(cache.statistics().bytes == 0); });
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
