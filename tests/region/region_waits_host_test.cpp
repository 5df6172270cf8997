// SPDX-License-Identifier: MIT
// Waits of regions, beside growth that waits for nothing.
#include "core/error.hpp"
#include "region/device_work.hpp"
#include "region/region_test.hpp"
#include "runtime/runtime_rules.hpp"
#include "support/host/host_test.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

HIPVMM_TEST_CASE_IN("region: addresses are renewed behind all work of devices with access",
                    under("rocm-7.2", "returns_memory=no,returns_with_addresses=yes")) {
  constexpr device_ref peer{1};
  const std::size_t unit = granule();
  for (const device_ref busy : {first_device, peer}) {
    const stream own;
    region region{first_device, 16 * unit};
    region.grant(peer);
    for (const std::size_t index : {0U, 1U, 2U}) region.commit(index * unit, unit);
    blocked_stream user{busy};
    fill_async(user, region.base(), 1, unit);
    const calls_of waits{device_waiting_functions};
    std::atomic<bool> has_returned{false};
    std::thread trimming{[&] {
      region.trim(2 * unit, own, tail_chunk::replace);
      has_returned = true;
    }};
    while (waits.count() == 0 && !has_returned) std::this_thread::yield();
    CHECK_FALSE(happens([&] { return has_returned.load(); }));
    user.release();
    trimming.join();
    CHECK(region.committed_bytes() == 2 * unit);
  }
}

TEST_CASE("region: extend that moves waits for work of a peer") {
  constexpr device_ref peer{1};
  const std::size_t unit = granule();
  region region{first_device, 8 * unit};
  region.grant(peer);
  region.commit(0, unit);
  const address_reservation blocker{unit, 0, advance(region.base(), region.max_bytes())};
  const void* const base = region.base();
  blocked_stream user{peer};
  fill_async(user, region.base(), 1, unit);
  std::atomic<bool> has_returned{false};
  std::thread growing{[&] {
    region.extend(64 * unit, 2 * unit);
    has_returned = true;
  }};
  CHECK_FALSE(happens([&] { return has_returned.load(); }));
  user.release();
  growing.join();
  CHECK(region.base() != base);
}

TEST_CASE("region: trim in a stream of a peer with access waits for nothing") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  constexpr device_ref peer{1};
  const std::size_t unit = granule();
  region region{first_device, 8 * unit, {.when_empty = empty_policy::keeps_addresses}};
  region.grant(peer);
  for (const std::size_t index : {0U, 1U}) region.commit(index * unit, unit);
  blocked_stream user{peer};
  fill_async(user, region.base(), 1, 2 * unit);
  const calls_of waits{waiting_functions};
  std::atomic<bool> has_returned{false};
  // Were it to wait, it would be for good.
  std::thread releasing{[&] {
    while (waits.count() == 0 && !has_returned) std::this_thread::yield();
    user.release();
  }};
  region.trim(unit, user);
  CHECK(waits.count() == 0);
  has_returned = true;
  releasing.join();
  CHECK(region.committed_bytes() == unit);
}

TEST_CASE("region: decommit in a stream waits for nothing, a commit of its addresses does") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  const std::size_t unit = granule();
  region region{first_device, 8 * unit, {.when_empty = empty_policy::keeps_addresses}};
  for (const std::size_t index : {0U, 1U, 2U}) region.commit(index * unit, unit);
  blocked_stream user{first_device};
  fill_async(user, region.base(), 1, 3 * unit);
  const calls_of waits{waiting_functions};
  const std::uint64_t mapped = live_objects().mappings;
  CHECK(region.decommit(unit, unit, user) == unit);
  CHECK(waits.count() == 0);
  CHECK(live_objects().mappings == mapped);
  CHECK(region.committed_from(0) == unit);
  CHECK(region.committed_from(2 * unit) == unit);
  std::atomic<bool> has_returned{false};
  std::thread growing{[&] {
    region.commit(unit, unit);
    has_returned = true;
  }};
  CHECK_FALSE(happens([&] { return has_returned.load(); }));
  user.release();
  growing.join();
  CHECK(region.committed_from(0) == 3 * unit);
}

TEST_CASE_FIXTURE(region_of<8>,
                  "region: if HIP refuses to wait for a copy, the call waits for its device") {
  region.commit(0, 4 * unit);
  const calls_of waits{device_waiting_functions};
  // The first wait is for the program's work.
  const planned_fault fault{"hipStreamSynchronize", 2, hipErrorUnknown};
  CHECK_THROWS_AS(region.trim(unit, stream, tail_chunk::replace), hip_error);
  CHECK(fault.struck());
  CHECK(waits.count() == 1);
  CHECK(region.committed_bytes() == 4 * unit);
}

TEST_CASE("region: a chunk moves to retired addresses behind the work that uses them") {
  const std::size_t unit = granule();
  region region{first_device, 8 * unit, {.when_empty = empty_policy::keeps_addresses}};
  if (!region.can_move_chunks()) {
    MESSAGE("skipped: two addresses of one chunk do not show the same bytes");
    return;
  }
  for (const std::size_t index : {0U, 1U, 2U}) region.commit(index * unit, unit);
  blocked_stream user{first_device};
  fill_async(user, advance(region.base(), unit), 1, 2 * unit);
  region.trim(unit, user);
  std::atomic<bool> has_returned{false};
  std::thread moving{[&] {
    CHECK_NOTHROW(region.move_chunk(0, 2 * unit));
    has_returned = true;
  }};
  CHECK_FALSE(happens([&] { return has_returned.load(); }));
  user.release();
  moving.join();
  CHECK(region.committed_from(2 * unit) == unit);
  CHECK_NOTHROW(region.end_move(0));
}

TEST_CASE("region: if mappings are visible late, a commit waits for the new ones too") {
  using namespace std::chrono_literals;
  const assumed_capability found{"visible_at_once=no,visibility_delay=30ms"};
  const std::size_t unit = granule();
  region region{first_device, 8 * unit};
  region.commit(0, unit);
  const auto begin = std::chrono::steady_clock::now();
  region.commit(0, 2 * unit);
  CHECK(std::chrono::steady_clock::now() - begin >= 30ms);
}

HIPVMM_TEST_CASE_IN("region: where HIP forgets addresses late their end waits for the device",
                    under("rocm-6.4", "virtual_memory=yes")) {
  const std::size_t unit = granule();
  const calls_of waits{device_waiting_functions};
  {
    region region{first_device, 8 * unit};
    region.commit(0, unit);
    CHECK(waits.count() == 0);
  }
  CHECK(waits.count() > 0);
  const std::uint64_t before = waits.count();
  { const region unused{first_device, 8 * unit}; }
  CHECK(waits.count() == before);
}

HIPVMM_TEST_CASE_IN("region: where HIP forgets addresses late unused ones end without a wait",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4"}) {
  blocked_stream busy{first_device};
  const calls_of waits{device_waiting_functions};
  {
    region region{first_device, 4 * granule()};
    region.prepare(granule(), prefetch_level::created);
    region.cancel_or_wait();
    region.retire();
  }
  CHECK(waits.count() == 0);
}

TEST_CASE("region: a grant waits for work under way where it moves pages, and nowhere else") {
  const bool waits = detail::rules_of_runtime().wait_before_grant;
  CHECK(waits == quirks::grants_move_pages.holds());
  for (const access_right right : {access_right::read_write, access_right::none}) {
    region region{first_device, 4 * granule()};
    region.grant(device_ref{1}, access_right::read);
    region.commit(0, granule());
    blocked_stream user{first_device};
    fill_async(user, region.base(), 1, granule());
    const calls_of begun{device_waiting_functions};
    std::atomic<bool> has_returned{false};
    std::thread granting{[&] {
      region.grant(device_ref{1}, right);
      has_returned = true;
    }};
    while (begun.count() == 0 && !has_returned) std::this_thread::yield();
    CHECK(has_returned == !waits);
    user.release();
    granting.join();
    CHECK(region.access(device_ref{1}) == right);
  }
}

HIPVMM_TEST_CASE_IN("region: memory that a wait for a device holds comes back to a commit",
                    {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_MEMORY=64MiB"}) {
  const std::size_t all = first_device.total_memory();
  region region{first_device, all};
  blocked_stream user{first_device};
  std::jthread waits{[] { first_device.synchronize(); }};
  REQUIRE(comes_true([&] { return first_device.free_memory() < all; }));
  watched_thread grows{
      [&] { CHECK_FALSE(detail::refusal_of([&] { region.commit(0, all); }).has_value()); }};
  CHECK(grows.comes_to_wait());
  user.release();
  grows.join();
  CHECK(region.committed_bytes() == all);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
