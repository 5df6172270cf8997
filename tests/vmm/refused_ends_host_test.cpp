// SPDX-License-Identifier: MIT
// Memory that HIP refuses to free or to unmap when its owner ends.
#include <functional>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include "core/check.hpp"
#include "region/chunks/region_chunks.hpp"
#include "support/host/host_test.hpp"
#include "support/region/held_memory.hpp"
#include "support/region/region_with_room.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

/// The objects of HIP, and the library's counts.
struct both_counts {
  std::uint64_t reservations = live_objects().reservations;
  std::uint64_t mappings = live_objects().mappings;
  std::size_t bytes = hipvmm_host_device_bytes(0);
  std::size_t counted_reservations = detail::all_reserved().count;
  std::size_t counted_bytes = detail::created_chunk_bytes(first_device);

  friend bool operator==(const both_counts& a, const both_counts& b) {
    return a.reservations == b.reservations && a.mappings == b.mappings && a.bytes == b.bytes &&
           a.counted_reservations == b.counted_reservations && a.counted_bytes == b.counted_bytes;
  }
  [[nodiscard]] bool agree_since(const both_counts& before) const {
    return reservations - before.reservations ==
               counted_reservations - before.counted_reservations &&
           bytes - before.bytes == counted_bytes - before.counted_bytes;
  }
};

std::unique_ptr<region> used_region() {
  auto made = std::make_unique<region>(first_device, 4 * granule());
  made->commit(0, granule());
  made->commit(granule(), granule());
  made->decommit(granule(), granule());
  return made;
}

/// Counts with nothing kept but the memory of owners.
both_counts counts_now() {
  chunk_cache::shared().trim();
  return {};
}

TEST_CASE("region: addresses that HIP refuses to free are freed before the next are reserved") {
  used_region();  // the first probes
  const both_counts before = counts_now();
  const error_recorder reported;
  auto ended = used_region();
  {
    const planned_faults faults{"hipMemAddressFree error=hipErrorInvalidValue"};
    ended.reset();
    CHECK(reported.count() == 1);
    CHECK(counts_now().agree_since(before));
    CHECK(counts_now().reservations == before.reservations + 1);
    used_region();
    CHECK(counts_now().agree_since(before));
  }
  CHECK(reported.count() == 2);  // each once
  const address_reservation next{granule()};
  CHECK(live_objects().reservations == before.reservations + 1);
  CHECK(counts_now().bytes == before.bytes);
  CHECK(counts_now().agree_since(before));
}

TEST_CASE("region: what HIP refuses to unmap until its end is unmapped and freed later") {
  used_region();
  const both_counts before = counts_now();
  const error_recorder reported;
  auto ended = used_region();
  const call_counter frees{"hipMemAddressFree"};
  {
    const planned_faults faults{"hipMemUnmap error=hipErrorUnknown"};
    ended.reset();
    CHECK(frees.count() == 0);  // AMD's runtime would lose its record of them
    CHECK(counts_now().mappings == before.mappings + 1);
    CHECK(counts_now().agree_since(before));
  }
  CHECK(reported.count() == 1);
  drain_retired_memory();
  CHECK(counts_now() == before);
  CHECK(reported.count() == 1);
}

TEST_CASE("region: a device that is full gets what HIP refused to free") {
  const both_counts before = counts_now();
  const error_recorder reported;
  auto ended = std::make_unique<region>(first_device, granule());
  ended->commit(0, granule());
  region other{first_device, granule()};
  {
    const planned_faults faults{"hipMemUnmap error=hipErrorUnknown"};
    ended.reset();
  }
  const planned_fault full{"hipMemCreate", 1, hipErrorOutOfMemory};
  other.commit(0, granule());
  CHECK(full.struck());
  CHECK(counts_now().bytes == before.bytes + granule());
}

TEST_CASE("address_reservation: what HIP refuses to free is freed with the next") {
  const both_counts before = counts_now();
  const error_recorder reported;
  {
    const planned_faults faults{"hipMemAddressFree error=hipErrorInvalidValue"};
    { const address_reservation ended{granule()}; }
    CHECK(reported.count() == 1);
    CHECK(reported.errors().front().call == "hipMemAddressFree");
    CHECK_THROWS_AS(detail::can_reserve(granule()), hip_error);
    CHECK(counts_now().reservations == before.reservations + 2);
    CHECK(counts_now().agree_since(before));
  }
  CHECK(hipGetLastError() == hipSuccess);
  address_reservation{granule()}.free();
  CHECK(counts_now() == before);
}

TEST_CASE("address_reservation: refusals that stay cost a later call one call of HIP each") {
  const both_counts before = counts_now();
  const error_recorder reported;
  const call_counter frees{"hipMemAddressFree"};
  {
    const planned_faults faults{"hipMemAddressFree error=hipErrorInvalidValue"};
    for (int i = 0; i < 4; ++i) const address_reservation ended{granule()};
    // Its own, and one that was refused before.
    CHECK(frees.count() == 1 + 3 * 2);
    CHECK(counts_now().agree_since(before));
  }
  drain_retired_memory();
  CHECK(counts_now() == before);
}

TEST_CASE(
    "mapping: what HIP refuses to unmap is unmapped later, and then its addresses are freed") {
  const both_counts before = counts_now();
  const error_recorder reported;
  {
    const address_reservation addresses{granule()};
    const physical_chunk chunk{first_device, granule()};
    const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
    { const mapping ended{addresses, 0, chunk}; }
    CHECK(fault.struck());
    CHECK(reported.count() == 1);
    CHECK(reported.errors().front().call == "hipMemUnmap");
  }
  CHECK(reported.count() == 2);  // the addresses, of which HIP was not asked
  CHECK(counts_now().mappings == before.mappings + 1);
  drain_retired_memory();
  CHECK(counts_now() == before);
}

// AMD's runtime drops its record of addresses that it refuses to free: another call crashes.
HIPVMM_TEST_CASE_IN("address_reservation: addresses that HIP has forgotten are never freed again",
                    under("rocm-6.4", "virtual_memory=yes")) {
  const error_recorder reported;
  const std::size_t counted = detail::all_reserved().count;
  const call_counter frees{"hipMemAddressFree"};
  {
    const planned_faults faults{"hipMemAddressFree error=hipErrorUnknown"};
    { const address_reservation ended{granule()}; }
    CHECK(reported.count() == 1);
    CHECK_THROWS_AS(detail::can_reserve(granule()), hip_error);
  }
  CHECK(frees.count() == 2);
  address_reservation{granule()}.free();
  CHECK(frees.count() == 3);
  CHECK(detail::all_reserved().count == counted + 2);  // for good
}

HIPVMM_TEST_CASE_IN("address_reservation: free() of addresses that HIP has forgotten empties it",
                    under("rocm-7.2", "virtual_memory=yes")) {
  const std::size_t counted = detail::all_reserved().count;
  const call_counter frees{"hipMemAddressFree"};
  address_reservation addresses{granule()};
  {
    const planned_fault faults{"hipMemAddressFree", 1, hipErrorInvalidValue};
    CHECK_THROWS_AS(addresses.free(), hip_error);
    CHECK_FALSE(addresses.empty());
  }
  {
    const planned_fault faults{"hipMemAddressFree", 1, hipErrorUnknown};
    CHECK_THROWS_AS(addresses.free(), hip_error);
  }
  CHECK(addresses.empty());
  addresses.free();
  addresses = {};
  CHECK(frees.count() == 2);
  CHECK(detail::all_reserved().count == counted + 1);  // for good
}

std::string refusal_by(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const hip_error& refused) {
    return refused.what();
  }
}

HIPVMM_TEST_CASE_IN("sleep: addresses that HIP forgot as they were renewed are named, and counted",
                    under("rocm-7.2", kept_memory)) {
  used_region();
  const both_counts before = counts_now();
  const error_recorder reported;
  const call_counter frees{"hipMemAddressFree"};
  {
    memory_tag tag{"t"};
    std::optional<region> lost{std::in_place, first_device, granule(), region_options{.tag = tag}};
    region other{first_device, granule(), {.tag = tag}};
    lost->commit(0, granule());
    other.commit(0, granule());
    {
      const planned_fault fault{"hipMemAddressFree", 1, hipErrorUnknown};
      suspend(tag, keep::contents);
      CHECK(fault.struck());
    }
    CHECK(counts_now().agree_since(before));
    const std::string named = detail::address_text(lost->base()) + ", " + format_bytes(granule());
    for (const std::string& text :
         {refusal_by([&] { resume(tag); }), reported.errors().back().message}) {
      CHECK_MESSAGE(text.find(named + ", are lost, because HIP") != std::string::npos, text);
    }
    CHECK(tag.is_asleep());
    lost.reset();
    CHECK(resume(tag) == granule());
    CHECK(other.committed_bytes() == granule());
  }
  CHECK(frees.count() == 3);
  CHECK(counts_now().bytes == before.bytes + granule());
  CHECK(counts_now().agree_since(before));
}

HIPVMM_TEST_CASE_IN("sleep: a region without memory wakes without the addresses that HIP forgot",
                    under("rocm-7.2", kept_memory)) {
  const error_recorder reported;
  const memory_tag tag{"t"};
  region empty{first_device, granule(), {.when_empty = empty_policy::keeps_addresses, .tag = tag}};
  region other{first_device, granule(), {.tag = tag}};
  empty.commit(0, granule());
  other.commit(0, granule());
  empty.decommit(0, granule());
  {
    const planned_fault fault{"hipMemAddressFree", 1, hipErrorUnknown};
    detail::return_pinned_memory(empty);
    CHECK(fault.struck());
  }
  suspend(tag, keep::contents);
  CHECK(resume(tag) == granule());
  CHECK(refusal_by([&] { empty.commit(0, granule()); }).find("are lost") != std::string::npos);
}

HIPVMM_TEST_CASE_IN("region: what HIP refuses as extend() is undone is ended later",
                    under("rocm-7.2", std::string{kept_memory} + ",crosses_reservations=yes")) {
  used_region();
  for (const char* const refused :
       {"hipMemAddressFree error=hipErrorInvalidValue", "hipMemUnmap error=hipErrorUnknown"}) {
    CAPTURE(refused);
    std::optional<region> grown = region_with_room(4 * granule(), 4 * granule());
    REQUIRE(grown);
    grown->commit(0, 4 * granule());
    const both_counts before = counts_now();
    const error_recorder reported;
    {
      const planned_faults faults{
          std::string{"hipMemSetAccess nth=1 error=hipErrorInvalidValue; "} + refused};
      CHECK_THROWS_AS(grown->extend(8 * granule(), 8 * granule()), hip_error);
      CHECK(counts_now().agree_since(before));
      CHECK(counts_now().bytes > before.bytes);
    }
    CHECK(reported.count() == 1);
    drain_retired_memory();
    CHECK(counts_now() == before);
    CHECK_FALSE(grown->extend(8 * granule(), 8 * granule()));
  }
}

HIPVMM_TEST_CASE_IN("region: of two ranges of addresses HIP may forget either",
                    under("rocm-7.2", std::string{kept_memory} + ",crosses_reservations=yes")) {
  used_region();
  const std::size_t unit = granule();
  for (const std::uint64_t nth : {1, 2}) {
    CAPTURE(nth);
    std::optional<region> lost =
        region_with_room(4 * unit, 4 * unit, {.when_empty = empty_policy::keeps_addresses});
    REQUIRE(lost);
    const both_counts before = counts_now();
    const error_recorder reported;
    REQUIRE_FALSE(lost->extend(8 * unit, 8 * unit));
    const std::string named =
        detail::address_text(advance(lost->base(), (nth - 1) * 4 * unit)) + ", ";
    {
      const planned_fault fault{"hipMemAddressFree", nth, hipErrorUnknown};
      lost->decommit(0, 8 * unit);
      detail::return_pinned_memory(*lost);
      CHECK(fault.struck());
    }
    CHECK(counts_now().agree_since(before));
    for (int again = 0; again < 2; ++again) {
      const std::string why = refusal_by([&] { lost->commit(0, unit); });
      CHECK_MESSAGE(why.find(named) != std::string::npos, why);
      detail::return_pinned_memory(*lost);
    }
    lost.reset();
    CHECK(counts_now().agree_since(before));
    CHECK(counts_now().counted_reservations == before.counted_reservations);
  }
}

TEST_CASE("physical_chunk: memory that HIP refuses to release is counted, and released later") {
  const both_counts before = counts_now();
  const error_recorder reported;
  const call_counter releases{"hipMemRelease"};
  {
    const planned_faults faults{"hipMemRelease error=hipErrorOutOfMemory"};
    { const physical_chunk ended{first_device, granule()}; }
    { const physical_chunk ended{first_device, granule()}; }
    CHECK(reported.count() == 2);
    CHECK(counts_now().bytes == before.bytes + 2 * granule());
    CHECK(counts_now().agree_since(before));
    const address_reservation next{granule()};
    CHECK(releases.count() == 3);
  }
  CHECK(reported.count() == 2);
  CHECK(hipGetLastError() == hipSuccess);
  drain_retired_memory();
  CHECK(counts_now() == before);
  {
    const planned_fault unknown{"hipMemRelease", 1, hipErrorInvalidValue};
    { const physical_chunk ended{first_device, granule()}; }
  }
  CHECK(releases.count() == 7);
  drain_retired_memory();
  CHECK(releases.count() == 7);  // HIP does not know the handle
}

HIPVMM_TEST_CASE_IN("region: memory of addresses that HIP has forgotten stays counted",
                    under("rocm-7.2", kept_memory)) {
  used_region();
  const both_counts before = counts_now();
  const error_recorder reported;
  auto ended = used_region();
  {
    const planned_faults faults{"hipMemAddressFree error=hipErrorUnknown"};
    ended.reset();
  }
  used_region();
  CHECK(counts_now().bytes == before.bytes + 2 * granule());
  CHECK(counts_now().agree_since(before));
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
