// SPDX-License-Identifier: MIT
#include <hipvmm/region/region.hpp>

#include "region/region_test.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("region: construction uses no device memory and makes no chunk") {
  const std::size_t before = hipvmm_host_device_bytes(0);
  const call_counter creations{"hipMemCreate"};
  const region region{first_device, 64 * GiB};
  CHECK(hipvmm_host_device_bytes(0) == before);
  CHECK(creations.count() == 0);
  CHECK(region.max_bytes() == 64 * GiB);
}

TEST_CASE("region: uses exactly the device memory that is committed") {
  HIPVMM_SKIP_UNDER(memory_kept);
  const std::size_t before = hipvmm_host_device_bytes(0);
  region region{first_device, 16 * granule()};
  region.commit(2 * granule(), 5 * granule());
  CHECK(hipvmm_host_device_bytes(0) == before + 5 * granule());
  region.decommit(0, 16 * granule());
  CHECK(hipvmm_host_device_bytes(0) == before);
}

TEST_CASE("region: where HIP refuses a mapping behind another, all get access from the first on") {
  HIPVMM_SKIP_UNDER(no_tail_access);  // is known there, and not tried
  region region{first_device, 16 * granule()};
  region.commit(granule(), granule());
  region.commit(2 * granule(), granule());
  const call_counter calls{"hipMemSetAccess"};
  {
    const planned_fault fault{"hipMemSetAccess", 1, hipErrorInvalidValue};
    region.commit(3 * granule(), granule());
    CHECK(fault.struck());
  }
  CHECK(calls.count() == 2);
  CHECK(get_access(advance(region.base(), 3 * granule()), first_device) ==
        access_right::read_write);
}

HIPVMM_TEST_CASE_IN(
    "region: where HIP refuses a grant behind another mapping, all get it from the first",
    under("strict", "base_access=no")) {
  region region{first_device, 16 * granule()};
  region.commit(0, granule());
  region.commit(granule(), granule());
  const planned_fault fault{"hipMemSetAccess", 2, hipErrorInvalidValue};
  region.grant(device_ref{1}, access_right::read);
  CHECK(fault.struck());
  for (const std::size_t index : {0U, 1U})
    CHECK(get_access(advance(region.base(), index * granule()), device_ref{1}) ==
          access_right::read);
}

TEST_CASE_FIXTURE(region_of<16>, "region: access that HIP refuses to a first mapping is an error") {
  region.commit(0, unit);
  const planned_fault fault{"hipMemSetAccess", 1, hipErrorInvalidValue};
  CHECK_THROWS_AS(region.commit(2 * unit, unit), hip_error);
}

TEST_CASE("region: destruction unmaps, releases and frees in that order and reports nothing") {
  const hipvmm_host_counters before = live_objects();
  const error_recorder reported;
  {
    region region{first_device, 16 * granule()};
    region.commit(0, 2 * granule());
    region.commit(4 * granule(), 2 * granule());
  }
  CHECK(reported.count() == 0);
  CHECK(live_objects() == before);
}

TEST_CASE("region: destruction that fails is reported and not thrown") {
  for (const std::string call : {"hipMemUnmap", "hipMemRelease", "hipMemAddressFree"}) {
    CAPTURE(call);
    const error_recorder reported;
    {
      region region{first_device, 4 * granule()};
      region.commit(0, granule());
      hipvmm_host_fail_call(call.c_str(), 1, hipErrorOperatingSystem);
    }
    CHECK(hipvmm_host_fault_struck() != 0);
    hipvmm_host_fail_call(nullptr, 0, 0);
    REQUIRE(reported.count() >= 1);
    CHECK(reported.errors().front().call == call);
  }
}

/// The chunks that a cache keeps of a region which ends after `use`, while its first unmap fails.
template <typename Use>
std::size_t chunks_kept_where_an_unmap_fails(Use use) {
  chunk_cache cache{GiB};
  const error_recorder reported;
  {
    region region{first_device, 4 * granule(), {.cache = &cache}};
    use(region);
    hipvmm_host_fail_call("hipMemUnmap", 1, hipErrorUnknown);
  }
  CHECK(hipvmm_host_fault_struck() != 0);
  hipvmm_host_fail_call(nullptr, 0, 0);
  CHECK(reported.count() == 1);
  return cache.statistics().chunks;
}

TEST_CASE("region: a chunk that could not be unmapped is not used again") {
  CHECK(chunks_kept_where_an_unmap_fails([](region& region) {
          region.commit(0, granule());
          region.commit(granule(), granule());
        }) == 1);
}

TEST_CASE("region: a chunk is not used again while its old address stays mapped") {
  if (!region{first_device, 4 * granule()}.can_move_chunks()) return;
  CHECK(chunks_kept_where_an_unmap_fails([](region& region) {
          region.commit(0, granule());
          region.move_chunk(0, 2 * granule());
        }) == 0);
}

TEST_CASE_FIXTURE(region_of<4>, "region: commit waits for nothing") {
  region.commit(0, unit);
  held_streams held;
  fill_async(stream, region.base(), 1, unit);
  const calls_of waits{waiting_functions};
  region.commit(unit, 3 * unit);
  CHECK(waits.count() == 0);
  CHECK_FALSE(stream.is_done());
  held.release();
  stream.synchronize();
}

TEST_CASE("region: a full device throws out_of_memory that tells what was held") {
  region region{first_device, 4 * GiB};
  region.commit(0, 3 * granule());
  const hipvmm_host_counters before = live_objects();
  const auto error = thrown_by<out_of_memory>([&] { region.commit(4 * granule(), 2 * GiB); });
  CHECK(error.resource() == exhausted::device_memory);
  CHECK(error.bytes_requested() == 2 * GiB);
  CHECK(error.bytes_free() == first_device.free_memory());
  CHECK(std::string{error.what()}.find(format_bytes(3 * granule())) != std::string::npos);
  CHECK(std::string{error.what()}.find("in 1 chunk, was asked to hold 2.00 GiB from offset") !=
        std::string::npos);
  CHECK(std::string{error.what()}.find(
            "2.00 GiB were requested; the request is larger than the device's memory of ") !=
        std::string::npos);
  CHECK(live_objects() == before);
  CHECK(region.committed_bytes() == 3 * granule());
}

TEST_CASE("region: a device that fills up in the middle of a commit leaves none of it") {
  region region{first_device, 2 * GiB};
  region.commit(64 * granule(), granule());
  const hipvmm_host_counters before = live_objects();
  CHECK_THROWS_AS(region.commit(0, 2 * GiB), out_of_memory);
  CHECK(live_objects() == before);
  CHECK(region.committed_bytes() == granule());
  CHECK(region.committed_from(64 * granule()) == granule());
}

TEST_CASE("region: decommitted chunks return to the cache and are mapped again from it") {
  chunk_cache cache{GiB};
  region region{first_device, 8 * granule(), {.cache = &cache}};
  region.commit(0, 2 * granule());
  region.decommit(0, 2 * granule());
  CHECK(cache.statistics().bytes == 2 * granule());
  const call_counter creations{"hipMemCreate"};
  region.commit(4 * granule(), 2 * granule());
  CHECK(creations.count() == 0);
  CHECK(cache.statistics().hits == 1);
}

TEST_CASE("region: destruction returns its chunks to the cache") {
  chunk_cache cache{GiB};
  const region_options options{.cache = &cache};
  {
    region region{first_device, 8 * granule(), options};
    commit_as_granted(region, 0, 2 * granule());
    region.commit(4 * granule(), granule());
  }
  CHECK(cache.statistics().bytes == 3 * granule());
}

TEST_CASE("region: shareable chunks cost a descriptor each, others none") {
  const region_options options{.shareable = handle_type::posix_fd};
  const std::uint64_t before = live_objects().descriptors;
  region shareable{first_device, 8 * granule(), options};
  shareable.commit(0, granule());
  shareable.commit(2 * granule(), granule());
  region ordinary{first_device, 8 * granule()};
  ordinary.commit(0, granule());
  CHECK(live_objects().descriptors == before + 2);
}

// The space is a little less than a power of two, so that no half fits exactly and all is used.
HIPVMM_TEST_CASE_IN("region: where addresses are scarce, halves are reserved down to one granule",
                    {"HIPVMM_HOST_ADDRESS_SPACE=62MiB", "HIPVMM_HOST_GRANULARITY=2MiB"}) {
  const std::size_t space = 64 * MiB;
  region first{first_device, GiB};
  CHECK(first.max_bytes() == space / 2);
  region second{first_device, GiB};
  CHECK(second.max_bytes() == space / 4);
  first.commit(0, first.max_bytes());
  second.commit(0, second.max_bytes());
  std::vector<region> rest;
  CHECK_THROWS_AS(for (;;) rest.emplace_back(first_device, GiB), out_of_memory);
  CHECK(rest.size() > 1);
  CHECK(rest.back().max_bytes() == granule());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
