// SPDX-License-Identifier: MIT
#include <hipvmm/region/retirement.hpp>

#include <hipvmm/runtime/device_allocation.hpp>
#include "region/region_test.hpp"
#include "support/host/host_test.hpp"
#include "support/process/forked_child.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// A region of four granules in a chunk each, which a stream that stands still is about to fill.
struct region_in_use {
  const std::size_t unit = granule();
  hipvmm::region region;
  blocked_stream stream;

  explicit region_in_use(device_ref device = first_device, const region_options& options = {})
      : region{device, 16 * unit, keeping_addresses(options)}, stream{device} {
    for (std::size_t index = 0; index < 4; ++index) region.commit(index * unit, unit);
    fill_async(stream, region.base(), 0x42, 4 * unit);
  }

  // So that a trim to nothing waits for nothing under each profile.
  static region_options keeping_addresses(region_options options) {
    options.when_empty = empty_policy::keeps_addresses;
    return options;
  }
};

void wait_until_waiting(std::size_t count) {
  REQUIRE(comes_true([count] { return retired_memory().waiting == count; }));
}

TEST_CASE("retirement: trim of a region in use does not wait; memory returns after the work") {
  region_in_use subject;
  const calls_of waits{waiting_functions};
  const call_counter unmaps{"hipMemUnmap"};
  CHECK(subject.region.trim(subject.unit, subject.stream) == 3 * subject.unit);
  CHECK(subject.region.committed_bytes() == subject.unit);
  CHECK(subject.region.chunk_count() == 1);
  CHECK(retired_memory().waiting_bytes == 3 * subject.unit);
  CHECK(waits.count() == 0);
  CHECK(unmaps.count() == 0);
  subject.stream.release();
  drain_retired_memory();
  CHECK(unmaps.count() == 3);
  CHECK(waits.count() == 0);
  CHECK(read_bytes(subject.stream, subject.region.base(), subject.unit) ==
        byte_vector(subject.unit, 0x42));
}

TEST_CASE("retirement: what a region in use held goes back to the device") {
  HIPVMM_SKIP_UNDER(memory_kept);
  const std::size_t before = hipvmm_host_device_bytes(0);
  region_in_use subject;
  subject.region.trim(subject.unit, subject.stream);
  CHECK(hipvmm_host_device_bytes(0) == before + 4 * subject.unit);
  subject.stream.release();
  drain_retired_memory();
  CHECK(hipvmm_host_device_bytes(0) == before + subject.unit);
}

TEST_CASE_FIXTURE(region_in_use,
                  "retirement: memory that an idle stream used is released at once") {
  stream.release();
  static_cast<stream_ref>(stream).synchronize();
  const retirement_statistics before = retired_memory();
  const call_counter unmaps{"hipMemUnmap"};
  region.trim(unit, stream);
  CHECK(unmaps.count() == 3);
  CHECK(retired_memory().returned == before.returned);
}

TEST_CASE("retirement: a stream of a device without access is waited for in the call") {
  region_in_use subject;
  subject.stream.release();
  static_cast<stream_ref>(subject.stream).synchronize();
  blocked_stream stranger{device_ref{2}};
  const std::size_t before = retired_memory().returned;
  const call_counter waits{"hipStreamSynchronize"};
  std::atomic<bool> has_returned{false};
  std::thread trimming{[&] {
    subject.region.trim(subject.unit, stranger);
    has_returned = true;
  }};
  while (waits.count() == 0 && !has_returned) std::this_thread::yield();
  CHECK_FALSE(has_returned);
  stranger.release();
  trimming.join();
  CHECK(subject.region.committed_bytes() == subject.unit);
  CHECK(retired_memory().waiting == 0);
  CHECK(retired_memory().returned == before);
}

TEST_CASE("retirement: no stream holds up what another stream used") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  region_in_use first;
  region_in_use second;
  first.region.trim(0, first.stream);
  second.region.trim(0, second.stream);
  CHECK(retired_memory().waiting == 2);
  second.stream.release();
  wait_until_waiting(1);
  CHECK_FALSE(first.stream.is_done());
  first.stream.release();  // the end of a region may wait for its device
}

TEST_CASE("retirement: no device holds up what another device used") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  region_in_use first;
  region_in_use second{second_device};
  first.region.retire();
  second.region.retire();
  CHECK(retired_memory().waiting == 2);
  second.stream.release();
  wait_until_waiting(1);
  CHECK_FALSE(first.stream.is_done());
  first.stream.release();  // the end of a region may wait for its device
}

TEST_CASE("retirement: a wait for one device returns nothing that others use as well") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  region_in_use first;
  region_in_use second;
  region_in_use shared;
  shared.region.grant(second_device);
  blocked_stream peer{second_device};
  const void* const base = shared.region.base();
  for (region_in_use* each : {&first, &second, &shared}) each->region.retire();
  CHECK(retired_memory().waiting == 3);
  for (region_in_use* each : {&first, &second, &shared}) each->stream.release();
  wait_until_waiting(1);
  CHECK_FALSE(happens([] { return retired_memory().waiting == 0; }));
  CHECK_NOTHROW(static_cast<void>(get_access(base, first_device)));
  CHECK_FALSE(peer.is_done());
  peer.release();
  drain_retired_memory();
}

TEST_CASE_FIXTURE(region_in_use, "retirement: a region whose trim waits prepares nothing") {
  region.trim(unit, stream);
  for (const prefetch_level how : {prefetch_level::created, prefetch_level::mapped}) {
    region.prepare(unit, how);
    detail::wait_for_background_tasks();
    CHECK(region.prepared_bytes() == 0);
    CHECK(region.failed_preparations() == 0);
  }
  CHECK(retired_memory().waiting == 1);
}

TEST_CASE("retirement: a region that is retired waits for nothing, its trims before neither") {
  const hipvmm_host_counters before = live_objects();
  {
    region_in_use subject;
    const call_counter unmaps{"hipMemUnmap"};
    subject.region.trim(2 * subject.unit, subject.stream);
    subject.region.retire();
    CHECK(retired_memory().waiting == 2);
    CHECK(unmaps.count() == 0);
    CHECK(live_objects().reservations == before.reservations + 1);
    subject.stream.release();
    drain_retired_memory();
    CHECK(unmaps.count() == 4);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("retirement: the addresses of a region that was emptied stay until its trim is over") {
  const std::uint64_t before = live_objects().reservations;
  region_in_use subject;
  subject.region.trim(0, subject.stream);
  subject.region.retire();
  // The addresses wait by themselves if they must not be freed too early.
  CHECK(retired_memory().waiting == under(quirks::addresses_forgotten_late, 2U, 1U));
  CHECK(live_objects().reservations == before + 1);
  subject.stream.release();
  drain_retired_memory();
  CHECK(live_objects().reservations == before);
}

TEST_CASE("retirement: growth into retired bytes is ordered after the work that uses them") {
  region_in_use subject;
  subject.region.trim(subject.unit, subject.stream);
  std::thread growing{[&] {
    subject.region.commit(0, 3 * subject.unit);
    CHECK(subject.stream.is_done());
  }};
  subject.stream.release();
  growing.join();
  CHECK(subject.region.committed_bytes() == 3 * subject.unit);
  const stream other;
  write_tags(subject.region, 1, 3, 5, other);
  check_tags(subject.region, 1, 3, 5, other);
  CHECK(read_bytes(other, subject.region.base(), subject.unit) == byte_vector(subject.unit, 0x42));
}

TEST_CASE("retirement: growth elsewhere waits for nothing") {
  HIPVMM_SKIP_UNDER(no_tail_access);
  region_in_use subject;
  subject.region.trim(subject.unit, subject.stream);
  subject.region.commit(4 * subject.unit, 4 * subject.unit);
  CHECK(retired_memory().waiting == 1);
}

TEST_CASE_FIXTURE(region_in_use,
                  "retirement: growth after retired chunks gets access if HIP counts those too") {
  region.trim(unit, stream);
  std::thread growing{[&] { CHECK_NOTHROW(commit_as_granted(region, 4 * unit, 4 * unit)); }};
  stream.release();
  growing.join();
  CHECK(get_access(advance(region.base(), 4 * unit), first_device) == access_right::read_write);
}

TEST_CASE("retirement: rights change beside retired chunks, and apply to later chunks") {
  // There a grant waits for work under way.
  HIPVMM_SKIP_UNDER(unmap_waits);
  region_in_use subject;
  subject.region.trim(subject.unit, subject.stream);
  subject.region.grant(second_device, access_right::read);
  CHECK(get_access(advance(subject.region.base(), subject.unit), second_device) ==
        access_right::none);
  subject.stream.release();
  subject.region.commit(0, 3 * subject.unit);
  CHECK(get_access(advance(subject.region.base(), subject.unit), second_device) ==
        access_right::read);
}

TEST_CASE("retirement: a region that moves leaves its old addresses to retired chunks") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  const std::uint64_t before = live_objects().reservations;
  region_in_use subject;
  const address_reservation blocker{subject.unit, 0,
                                    advance(subject.region.base(), subject.region.max_bytes())};
  const void* const base = subject.region.base();
  const blocked_stream peer{second_device};
  // A stream that extend() need not wait for.
  subject.region.grant(second_device);
  subject.stream.release();
  static_cast<stream_ref>(subject.stream).synchronize();
  subject.region.trim(subject.unit, peer);
  CHECK(retired_memory().waiting == 1);
  subject.region.revoke(second_device);
  CHECK(subject.region.extend(64 * subject.unit, 4 * subject.unit));
  CHECK(subject.region.base() != base);
  CHECK(subject.region.committed_bytes() == 4 * subject.unit);
  CHECK(live_objects().reservations == before + 3);
}

TEST_CASE("retirement: growth on a full device waits for retired memory") {
  HIPVMM_SKIP_UNDER(memory_kept);
  const std::size_t half = first_device.total_memory() / 2;
  region first{first_device, 2 * half};
  first.commit(0, half + half / 2);
  blocked_stream stream{first_device};
  fill_async(stream, first.base(), 1, granule());
  first.trim(0, stream);
  region second{first_device, 2 * half};
  std::thread growing{[&] { CHECK_NOTHROW(second.commit(0, half)); }};
  stream.release();
  growing.join();
  CHECK(second.committed_bytes() == half);
}

TEST_CASE("retirement: growth on a full device waits for memory of destroyed regions") {
  const std::size_t half = first_device.total_memory() / 2;
  for (int round = 0; round < 20; ++round) {
    region each{first_device, 2 * half};
    CHECK_NOTHROW(each.commit(0, half + half / 2));
    each.retire();
  }
}

TEST_CASE("retirement: out_of_memory reports the bytes that are being released") {
  drain_retired_memory();
  const std::size_t most = align_down(first_device.free_memory() / 4 * 3, granule());
  const blocked_stream stream{first_device};
  const auto message = [&] {
    try {
      const device_allocation refused{first_device, most};
    } catch (const out_of_memory& error) {
      CHECK(error.resource() == exhausted::device_memory);
      return std::string{error.what()};
    }
    return std::string{"nothing was refused"};
  };
  region held{first_device, 2 * most};
  held.commit(0, most);
  CHECK(message().find("retired") == std::string::npos);
  fill_async(stream, held.base(), 1, granule());
  held.retire();
  CHECK(message().find(format_bytes(most) + " more are retired") != std::string::npos);
}

TEST_CASE("retirement: growth on a full device waits for no other device's memory") {
  region_in_use subject;
  subject.region.retire();
  region region{second_device, 4 * GiB};
  CHECK_THROWS_AS(region.commit(0, 2 * second_device.total_memory()), out_of_memory);
  CHECK(retired_memory().waiting == 1);
}

HIPVMM_TEST_CASE_IN("retirement: growth without addresses waits for retired addresses",
                    {"HIPVMM_HOST_ADDRESS_SPACE=30MiB", "HIPVMM_HOST_GRANULARITY=2MiB"}) {
  for (int round = 0; round < 20; ++round) {
    region region{first_device, 20 * MiB};
    CHECK(region.max_bytes() == 20 * MiB);
    region.commit(0, granule());
    region.retire();
  }
}

HIPVMM_TEST_CASE_IN("retirement: addresses are waited for however many regions have them",
                    {"HIPVMM_HOST_ADDRESS_SPACE=256MiB", "HIPVMM_HOST_GRANULARITY=2MiB"}) {
  // For a lack of addresses the figures are the same before and after each release.
  constexpr std::size_t regions = 40;
  std::vector<std::unique_ptr<blocked_stream>> streams;
  for (std::size_t i = 0; i < regions; ++i) {
    streams.push_back(std::make_unique<blocked_stream>(first_device));
    region each{first_device, 4 * MiB};
    each.commit(0, granule());
    fill_async(*streams.back(), each.base(), 1, granule());
    each.retire();
  }
  CHECK(retired_memory().waiting == regions);
  std::thread ending{[&] {
    for (const auto& each : streams) each->release();
  }};
  const region all{first_device, 220 * MiB};
  CHECK(all.max_bytes() == 220 * MiB);
  ending.join();
}

TEST_CASE("retirement: a cache may end before the chunks that would go to it") {
  const hipvmm_host_counters before = live_objects();
  {
    auto cache = std::make_unique<chunk_cache>(GiB);
    region_in_use subject{first_device, {.cache = cache.get()}};
    subject.region.retire();
    cache.reset();
    subject.stream.release();
    drain_retired_memory();
  }
  CHECK(live_objects() == before);
}

TEST_CASE("retirement: chunks go to the cache of their region") {
  chunk_cache cache{GiB};
  region_in_use subject{first_device, {.cache = &cache}};
  subject.region.trim(subject.unit, subject.stream);
  CHECK(cache.statistics().chunks == 0);
  subject.stream.release();
  drain_retired_memory();
  CHECK(cache.statistics().chunks == 3);
}

TEST_CASE_FIXTURE(region_of<4>,
                  "retirement: trim in a stream that is captured throws, and the capture goes on") {
  region.commit(0, unit);
  REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  CHECK(stream.ref().is_capturing());
  CHECK_THROWS_AS(region.trim(0, stream), std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(region.decommit(0, unit, stream)),
                       doctest::Contains("region::decommit: the stream is being captured"),
                       std::invalid_argument);
  CHECK(region.committed_bytes() == unit);
  end_capture(stream.get());
  CHECK_FALSE(stream.ref().is_capturing());
}

TEST_CASE_FIXTURE(region_in_use, "retirement: a trim that waits leaves captures that begin alone") {
  region.trim(0, stream);
  const hipvmm::stream captured;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  stream.release();
  drain_retired_memory();
  end_capture(captured.get());
}

TEST_CASE("retirement: a drain ends during a capture of another stream") {
  const error_recorder reported;
  region_in_use subject;
  const hipvmm::stream captured;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  subject.region.retire();
  subject.stream.release();
  drain_retired_memory();
  static_cast<void>(end_capture_if_kept(captured.get()));
  CHECK(reported.count() == 0);
}

void drain_and_say_nothing(const char*, int, const char*) noexcept { drain_retired_memory(); }

TEST_CASE("retirement: an error handler that drains does not wait for itself") {
  region_in_use subject;
  subject.region.trim(0, subject.stream);
  const error_handler previous = set_error_handler(drain_and_say_nothing);
  const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
  subject.stream.release();
  drain_retired_memory();
  set_error_handler(previous);
  CHECK(fault.struck());
}

std::size_t waiting_when_told = 0;
void ask_what_waits(const char*, int, const char*) noexcept {
  waiting_when_told = retired_memory().waiting;
}

TEST_CASE("retirement: the chunks of a cache that is gone are released under no lock") {
  auto cache = std::make_unique<chunk_cache>(GiB);
  region_in_use subject{first_device, {.cache = cache.get()}};
  subject.region.retire();
  cache.reset();
  waiting_when_told = 0;
  const error_handler previous = set_error_handler(ask_what_waits);
  const planned_fault fault{"hipMemRelease", 1, hipErrorUnknown};
  subject.stream.release();
  drain_retired_memory();
  set_error_handler(previous);
  CHECK(fault.struck());
  // The memory counts as waiting until the last chunk is released.
  CHECK(waiting_when_told == 1);
}

HIPVMM_CHILD("asks for retired memory, and forks before HIP's first call") {
  CHECK(retired_memory().waiting == 0);
  drain_retired_memory();
  CHECK(succeeds_in_forked_child([] {
    region_in_use subject;
    subject.region.trim(subject.unit, subject.stream);
    return retired_memory().waiting_bytes == 3 * subject.unit;
  }));
}

TEST_CASE("retirement: a program that asks before it forks and uses HIP waits for no work") {
  check_child("asks for retired memory, and forks before HIP's first call");
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
