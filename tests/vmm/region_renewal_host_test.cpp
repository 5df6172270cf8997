// SPDX-License-Identifier: MIT
// What a region that renews its addresses waits for.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include <hipvmm/core/copy.hpp>
#include <hipvmm/vmm/region.hpp>
#include "support/blocked_stream.hpp"
#include "support/devices.hpp"
#include "support/host_provider.hpp"
#include "support/under_profile.hpp"

namespace hipvmm::test::region_renewal_host_test {
namespace {

TEST_CASE("region: addresses are renewed behind all work of devices with access" *
          needs_virtual_memory) {
  if (!is_under("rocm-7.2", "returns_memory=no,returns_with_addresses=yes",
                "region: addresses are renewed behind all work of devices with access"))
    return;
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
      region.trim(2 * unit, own, straddling_chunk::replace);
      has_returned = true;
    }};
    while (waits.count() == 0 && !has_returned) std::this_thread::yield();
    for (int turn = 0; turn < 1000 && !has_returned; ++turn) std::this_thread::yield();
    CHECK_FALSE(has_returned);
    user.release();
    trimming.join();
    CHECK(region.committed_bytes() == 2 * unit);
  }
}

}  // namespace
}  // namespace hipvmm::test::region_renewal_host_test
