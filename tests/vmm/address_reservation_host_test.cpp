// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/address_reservation.hpp>

#include "support/host/host_test.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

TEST_CASE("address_reservation: a hint to free addresses is followed") {
  void* freed = nullptr;
  {
    const address_reservation first{4 * granule()};
    freed = first.get();
  }
  CHECK(address_reservation{4 * granule(), 0, freed}.get() == freed);
}

HIPVMM_TEST_CASE_IN("address_reservation: a lack of addresses throws out_of_memory that says so",
                    {"HIPVMM_HOST_ADDRESS_SPACE=64MiB"}) {
  const auto error =
      thrown_by<out_of_memory>([&] { const address_reservation reservation{128 * MiB}; });
  CHECK(error.resource() == exhausted::addresses);
  CHECK(error.bytes_requested() == 128 * MiB);
}

HIPVMM_TEST_CASE_IN("address_reservation: an alignment that HIP ignores costs no addresses",
                    under("rocm-7.1", "virtual_memory=yes")) {
  const hipvmm_host_counters before = live_objects();
  int refused = 0;
  // Not all addresses can be multiples of all of these.
  for (std::size_t alignment = GiB; alignment <= 64 * TiB; alignment *= 2) {
    try {
      const address_reservation reservation{granule(), alignment};
    } catch (const unsupported&) {
      ++refused;
    }
  }
  CHECK(refused > 0);
  CHECK(live_objects() == before);
}

HIPVMM_TEST_CASE_IN("address_reservation: on ROCm 6 addresses are freed behind HIP's own thread",
                    under("rocm-6.4", "virtual_memory=yes")) {
  const error_recorder errors;
  const call_counter functions{"hipStreamAddCallback"};
  const call_counter frees{"hipMemAddressFree"};
  address_reservation{granule()}.free();
  CHECK(functions.count() == 2);
  CHECK(frees.count() == 1);
  CHECK(errors.count() == 0);
}

HIPVMM_TEST_CASE_IN("address_reservation: addresses are freed where no host function can be had",
                    under("rocm-6.4", "virtual_memory=yes")) {
  const error_recorder errors;
  const call_counter frees{"hipMemAddressFree"};
  address_reservation reservation{granule()};
  const planned_fault fault{"hipStreamAddCallback", 2, hipErrorOutOfMemory};
  reservation.free();
  CHECK(errors.count() == 1);
  CHECK(frees.count() == 1);
}

HIPVMM_TEST_CASE_IN("address_reservation: addresses are met once more for each map that failed",
                    under("rocm-7.2", "virtual_memory=yes")) {
  const physical_chunk chunk{first_device, granule()};
  for (const int failed : {0, 1, 3}) {
    CAPTURE(failed);
    address_reservation addresses{2 * granule()};
    {
      const mapping map{addresses, 0, chunk};
      set_access(map.get(), map.bytes(), {first_device, access_right::read_write});
      for (int i = 0; i < failed; ++i)
        CHECK_THROWS_AS((mapping{addresses, 0, chunk, map_check::verified}), hip_error);
    }
    const auto calls = static_cast<std::uint64_t>(failed);
    const call_counter frees{"hipMemAddressFree"};
    const call_counter reservations{"hipMemAddressReserve"};
    REQUIRE(detail::reclaim_pinned(addresses) == detail::reclaim_result::done);
    CHECK(frees.count() == 1 + calls);
    CHECK(reservations.count() == 1 + calls);
    addresses.free();  // has nothing to end any more
    CHECK(frees.count() == 2 + calls);
    CHECK(reservations.count() == 1 + calls);
  }
}

std::future<void> reserving;  // by the handler
bool has_reserved = false;

HIPVMM_TEST_CASE_IN("address_reservation: an error handler may wait for a thread that reserves",
                    under("rocm-6.4", "virtual_memory=yes")) {
  std::optional<region> last{std::in_place, first_device, 2 * granule()};
  last->commit(0, granule());
  last->decommit(0, granule());
  const error_handler before = set_error_handler([](const char*, int, const char*) noexcept {
    reserving = std::async(std::launch::async, [] { address_reservation{granule()}; });
    has_reserved = reserving.wait_for(std::chrono::seconds{1}) == std::future_status::ready;
  });
  {
    // The second one frees the start that was reserved again.
    const planned_fault fault{"hipMemAddressFree", 2, hipErrorInvalidValue};
    last.reset();
    drain_retired_memory();
  }
  set_error_handler(before);
  REQUIRE(reserving.valid());
  reserving.get();
  CHECK(has_reserved);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
