// SPDX-License-Identifier: MIT
// Neighbours that one call of hipMemUnmap undoes, if the device has trait::unmaps_many, and that
// one call of hipMemSetAccess grants, if it has trait::base_access.
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include "region/chunks/region_chunks.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/host/host_test.hpp"
#include "support/host/recording_registrar.hpp"
#include "support/region/region_contents.hpp"
#include "vmm/unmap_range.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

bool unmaps_one_by_one() {
  if (capability_of(first_device).has(trait::unmaps_many)) return false;
  MESSAGE("skipped: the device has not trait::unmaps_many");
  return true;
}

/// A region of `count` neighbouring chunks with tags.
struct row_of_chunks {
  explicit row_of_chunks(std::size_t count, const region_options& options = {})
      : chunks{count}, region{first_device, 2 * count * granule(), options} {
    for (std::size_t i = 0; i < chunks; ++i) region.commit(i * granule(), granule());
    write_tags(region, 0, chunks, 1, stream);
  }
  [[nodiscard]] bool is_whole() const {
    for (std::size_t i = 0; i < chunks; ++i)
      if (!has_tag(region, i, 1, stream)) return false;
    return region.committed_bytes() == chunks * granule() && region.chunk_count() == chunks;
  }

  std::size_t chunks;
  hipvmm::stream stream;
  hipvmm::region region;
};

TEST_CASE("region: neighbours are unmapped by one call, 64 at most") {
  if (unmaps_one_by_one()) return;
  const hipvmm_host_counters before = live_objects();
  {
    row_of_chunks row{100};
    const call_counter unmaps{"hipMemUnmap"};
    // A hole parts them, and few are undone one by one.
    row.region.decommit(90 * granule(), granule());
    CHECK(unmaps.count() == 1);
    row.region.decommit(20 * granule(), 80 * granule());
    CHECK(unmaps.count() == 1 + 1 + 2);
    CHECK(row.region.committed_from(0) == 20 * granule());
    row.region.trim(17 * granule(), row.stream);
    CHECK(unmaps.count() == 4 + 3);
    for (std::size_t i = 0; i < 17; ++i) CHECK(has_tag(row.region, i, 1, row.stream));
    row.region.retire();
    drain_retired_memory();
    CHECK(unmaps.count() == 7 + 1);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("region: memory of the host is unmapped by a call of its own") {
  if (unmaps_one_by_one() || !capability_of(first_device).has(trait::host_chunks)) return;
  for (const std::size_t on_host : {std::size_t{2}, std::size_t{6}}) {
    CAPTURE(on_host);
    row_of_chunks row{12};
    row.region.move_range(4 * granule(), on_host * granule(), memory_location::host(), row.stream);
    const call_counter unmaps{"hipMemUnmap"};
    row.region.decommit(0, 12 * granule());
    CHECK(unmaps.count() == 1 + on_host + (on_host == 2 ? 1 : 2));
  }
}

/// Eight neighbours that a tag suspends.
struct sleeping_row {
  sleeping_row() : row{8, tagged(tag)} { suspend(tag, keep::nothing); }
  [[nodiscard]] bool is_usable() const {
    write_tags(row.region, 0, row.chunks, 1, row.stream);
    return row.is_whole();
  }
  memory_tag tag;
  row_of_chunks row;
};

TEST_CASE("region: neighbours that wake get their rights by one call, 64 at most") {
  if (!capability_of(first_device).has(trait::base_access)) return;
  const memory_tag tag;
  row_of_chunks row{100, tagged(tag)};
  suspend(tag, keep::nothing);
  const call_counter maps{"hipMemMap"};
  const call_counter grants{"hipMemSetAccess"};
  resume(tag);
  CHECK(maps.count() == 100);
  CHECK(grants.count() == 2);
  write_tags(row.region, 0, 100, 1, row.stream);
  CHECK(row.is_whole());
}

TEST_CASE("region: neighbours that HIP grants no rights together get them one by one") {
  if (!capability_of(first_device).has(trait::base_access)) return;
  const error_recorder reported;
  sleeping_row one;
  const call_counter grants{"hipMemSetAccess"};
  {
    const planned_fault fault{"hipMemSetAccess", 1, hipErrorInvalidValue};
    resume(one.tag);
  }
  CHECK(grants.count() == 1 + 8);
  CHECK(one.is_usable());
  CHECK(reported.count() == 0);
}

TEST_CASE("region: a resume of neighbours that fails leaves them asleep") {
  fault_sweep{"resume of neighbours"}.run<sleeping_row>(
      [](auto& one) { resume(one.tag); }, [](auto& one) { CHECK(one.tag.is_asleep()); },
      [](auto& one) { CHECK(one.is_usable()); });
}

TEST_CASE("region: neighbours that move with their region get their rights by one call") {
  if (!capability_of(first_device).has(trait::base_access)) return;
  row_of_chunks row{20};
  const call_counter grants{"hipMemSetAccess"};
  row.region.rebase(0, 4 * 20 * granule(), 20 * granule());
  CHECK(grants.count() == 1);
  CHECK(row.is_whole());
}

TEST_CASE("region: chunks that a commit creates together get their rights by one call") {
  if (!capability_of(first_device).has(trait::base_access)) return;
  const stream stream;
  region row{first_device, 32 * granule()};
  const call_counter creates{"hipMemCreate"};
  const call_counter grants{"hipMemSetAccess"};
  row.commit(granule(), 7 * granule(), 2 * granule());
  CHECK(creates.count() == 4);
  CHECK(grants.count() == 1);
  CHECK(row.chunk_bytes_at(granule()) == 2 * granule());
  CHECK(row.chunk_bytes_at(7 * granule()) == granule());
  write_tags(row, 1, 8, 1, stream);
  CHECK(has_tag(row, 7, 1, stream));
  CHECK_THROWS_AS(row.commit(8 * granule(), granule(), 0), std::invalid_argument);
  CHECK_THROWS_AS(row.commit(8 * granule(), granule(), granule() / 2), std::invalid_argument);
}

TEST_CASE("region: a commit of several chunks that fails leaves nothing") {
  fault_sweep{"commit of chunks"}.run(
      [] { return std::make_unique<row_of_chunks>(2); },
      [](auto& row) { row.region.commit(2 * granule(), 2 * granule(), granule()); },
      [](auto& row) { CHECK(row.is_whole()); },
      [](auto& row) { CHECK(row.region.chunk_count() == 4); });
}

/// Neighbours of a granule each, behind the first two granules.
std::map<std::size_t, physical_chunk> chunks_to_adopt(std::size_t count) {
  std::map<std::size_t, physical_chunk> made;
  for (std::size_t i = 0; i < count; ++i)
    made.try_emplace((2 + i) * granule(), first_device, granule());
  return made;
}

TEST_CASE("region: chunks that are adopted together get their rights by one call") {
  if (!capability_of(first_device).has(trait::base_access)) return;
  row_of_chunks row{2};
  auto chunks = chunks_to_adopt(2);
  const call_counter grants{"hipMemSetAccess"};
  hipvmm::detail::adopt_chunks(row.region, chunks);
  CHECK(grants.count() == 1);
  CHECK(row.region.chunk_count() == 4);
}

TEST_CASE("region: chunks that overlap are not adopted, and stay the caller's") {
  row_of_chunks row{4};
  std::map<std::size_t, physical_chunk> chunks;
  chunks.try_emplace(4 * granule(), first_device, 2 * granule());
  chunks.try_emplace(5 * granule(), first_device, granule());
  CHECK_THROWS_AS(hipvmm::detail::adopt_chunks(row.region, chunks), std::invalid_argument);
  CHECK_FALSE(chunks.begin()->second.empty());
  CHECK(row.is_whole());
}

TEST_CASE("region: an adoption of several chunks that fails leaves nothing") {
  fault_sweep{"adopt_chunks"}.run([] { return std::make_unique<row_of_chunks>(2); },
                                  [](auto& row) {
                                    auto chunks = chunks_to_adopt(2);
                                    hipvmm::detail::adopt_chunks(row.region, chunks);
                                  },
                                  [](auto& row) { CHECK(row.is_whole()); },
                                  [](auto& row) { CHECK(row.region.chunk_count() == 4); });
}

TEST_CASE("region: a decommit of neighbours that fails leaves all of them") {
  fault_sweep{"decommit of neighbours"}.run(
      [] { return std::make_unique<row_of_chunks>(8); },
      [](auto& row) { row.region.decommit(granule(), 6 * granule()); },
      [](auto& row) { CHECK(row.is_whole()); },
      [](auto& row) {
        CHECK(row.region.committed_bytes() == 2 * granule());
        row.region.commit(0, 8 * granule());
      });
}

TEST_CASE("region: neighbours that HIP refuses to unmap together are unmapped one by one") {
  if (unmaps_one_by_one()) return;
  const error_recorder reported;
  row_of_chunks row{8};
  const call_counter unmaps{"hipMemUnmap"};
  {
    const planned_fault fault{"hipMemUnmap", 1, hipErrorInvalidValue};
    row.region.decommit(2 * granule(), 6 * granule());
  }
  CHECK(unmaps.count() == 1 + 6);
  CHECK(row.region.committed_bytes() == 2 * granule());
  CHECK(reported.count() == 0);
}

TEST_CASE("region: its end reports an unmap of neighbours that fails, and unmaps one by one") {
  if (unmaps_one_by_one()) return;
  chunk_cache cache{GiB};
  const region_options options{.cache = &cache};
  const error_recorder reported;
  {
    row_of_chunks row{6, options};
    hipvmm_host_fail_call("hipMemUnmap", 1, hipErrorUnknown);
  }
  hipvmm_host_fail_call(nullptr, 0, 0);
  CHECK(reported.count() == 1);
  CHECK(cache.statistics().chunks == 6);
}

TEST_CASE("region: a registrar knows what HIP refuses to unmap with its neighbours") {
  const auto known = std::make_shared<recording_registrar>();
  row_of_chunks row{6, {.registrar = known}};
  {
    const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
    CHECK_THROWS_AS(row.region.decommit(0, 6 * granule()), hip_error);
  }
  CHECK(row.is_whole());
  CHECK(known->known().size() == 6);
  row.region.decommit(0, 6 * granule());
  CHECK(known->known().empty());
  CHECK(known->mistakes() == 0);
}

TEST_CASE("mapping: of neighbours that HIP has unmapped in part the others are held") {
  const std::size_t unit = granule();
  const address_reservation addresses{3 * unit};
  std::vector<physical_chunk> chunks;
  std::vector<mapping> maps;
  for (std::size_t i = 0; i < 3; ++i) {
    chunks.emplace_back(first_device, unit);
    maps.emplace_back(addresses, i * unit, chunks.back());
  }
  REQUIRE(hipMemUnmap(maps[1].get(), unit) == hipSuccess);
  const std::array<mapping*, 3> run{&maps[2], &maps[1], &maps[0]};
  const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
  CHECK_THROWS_AS(detail::unmap_together(run.data(), run.size()), hip_error);
  CHECK_FALSE(maps[0].empty());
  CHECK(maps[1].empty());
  CHECK_FALSE(maps[2].empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
