// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

using sixteen_granules = region_of<16>;

TEST_CASE_FIXTURE(sixteen_granules, "region: a new one backs nothing") {
  CHECK(region.device() == first_device);
  CHECK(region.base() != nullptr);
  CHECK(region.max_bytes() == 16 * unit);
  CHECK(region.granularity() == unit);
  CHECK(region.committed_bytes() == 0);
  CHECK(region.chunk_count() == 0);
  CHECK(region.committed_from(0) == 0);
}

TEST_CASE("region: the size is rounded up to the granularity") {
  CHECK(region{first_device, 1}.max_bytes() == granule());
  CHECK(region{first_device, granule() + 1}.max_bytes() == 2 * granule());
}

TEST_CASE("region: a size of zero and an unknown device throw invalid_argument") {
  CHECK_THROWS_AS((region{first_device, 0}), std::invalid_argument);
  CHECK_THROWS_WITH_AS((region{device_ref{device_count()}, MiB}),
                       doctest::Contains(("device " + std::to_string(device_count())).c_str()),
                       std::invalid_argument);
}

TEST_CASE("region: a size that no granularity fits throws length_error") {
  CHECK_THROWS_AS((region{first_device, std::numeric_limits<std::size_t>::max()}),
                  std::length_error);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: committed_from counts from the middle of a chunk") {
  region.commit(2 * unit, 3 * unit);
  CHECK(region.committed_from(2 * unit + 1) == 3 * unit - 1);
  CHECK(region.committed_from(5 * unit - 1) == 1);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: commit across the edges of chunks adds what misses") {
  region.commit(2 * unit, 4 * unit);
  region.commit(0, 3 * unit);
  region.commit(5 * unit, 3 * unit);
  CHECK(region.committed_from(0) == 8 * unit);
  CHECK(region.chunk_count() == 3);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: commit of everything fills the region") {
  region.commit(0, 16 * unit);
  CHECK(region.committed_from(0) == region.max_bytes());
  write_tags(region, 0, 16, 1, stream);
  check_tags(region, 0, 16, 1, stream);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: commit keeps the base") {
  void* const base = region.base();
  region.commit(0, unit);
  region.commit(unit, 15 * unit);
  CHECK(region.base() == base);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: a range off the granularity throws and is named") {
  CHECK_THROWS_AS(region.commit(1, unit), std::invalid_argument);
  CHECK_THROWS_WITH_AS(region.commit(0, unit + 1),
                       doctest::Contains(std::to_string(unit + 1).c_str()), std::invalid_argument);
  CHECK_THROWS_AS(region.decommit(1, unit), std::invalid_argument);
  CHECK_THROWS_AS(region.decommit(0, 1), std::invalid_argument);
  CHECK(region.chunk_count() == 0);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: a range beyond the region throws out_of_range") {
  const std::size_t far = align_down(std::numeric_limits<std::size_t>::max(), unit);
  CHECK_THROWS_AS(region.commit(0, 17 * unit), std::out_of_range);
  CHECK_THROWS_AS(region.commit(16 * unit, unit), std::out_of_range);
  CHECK_THROWS_AS(region.commit(17 * unit, 0), std::out_of_range);
  CHECK_THROWS_AS(region.commit(unit, far), std::out_of_range);
  CHECK_THROWS_AS(region.decommit(unit, far), std::out_of_range);
  CHECK(region.chunk_count() == 0);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: decommit leaves chunks that reach outside the range") {
  region.commit(0, 4 * unit);
  region.commit(4 * unit, unit);
  region.commit(5 * unit, 4 * unit);
  write_tags(region, 0, 9, 1, stream);
  CHECK(region.decommit(unit, 7 * unit) == unit);
  CHECK(region.committed_from(0) == 4 * unit);
  CHECK(region.committed_from(5 * unit) == 4 * unit);
  check_tags(region, 0, 4, 1, stream);
  check_tags(region, 5, 9, 1, stream);
}

TEST_CASE("region: is on the requested device") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  const device_ref second{1};
  const stream stream{second};
  region region{second, 4 * granule()};
  region.commit(0, 4 * granule());
  CHECK(region.device() == second);
  CHECK(device_ref::current() == first_device);
  write_tags(region, 0, 4, 1, stream);
  check_tags(region, 0, 4, 1, stream);
}

TEST_CASE("region: addresses of a failed commit can be reserved and backed again") {
  const std::size_t unit = granule();
  void* base = nullptr;
  {
    hipvmm::region region{first_device, 16 * unit};
    base = region.base();
    region.commit(0, unit);
    const physical_chunk intruder{first_device, unit};
    void* const at = advance(base, unit);
    REQUIRE(hipMemMap(at, unit, 0, intruder.get(), 0) == hipSuccess);
    set_access(at, unit, {first_device, access_right::read_write});
    CHECK_THROWS_AS(region.commit(unit, 2 * unit), hip_error);
    REQUIRE(hipMemUnmap(at, unit) == hipSuccess);
  }
  // HIP 7.0 to 7.2 keep a record of the map that failed (docs/guides/rocm.md, refused_map_stays).
  const address_reservation again{16 * unit, 0, base};
  base = again.get();
  const physical_chunk chunk{first_device, unit};
  for (std::size_t count = 1; count <= 4; ++count) {
    CAPTURE(count);
    REQUIRE(hipMemMap(advance(base, (count - 1) * unit), unit, 0, chunk.get(), 0) == hipSuccess);
    CHECK_NOTHROW(set_access(base, count * unit, {first_device, access_right::read_write}));
  }
  for (std::size_t index = 0; index < 4; ++index)
    CHECK(hipMemUnmap(advance(base, index * unit), unit) == hipSuccess);
}

TEST_CASE_FIXTURE(sixteen_granules, "region: what would change a moved-from one throws") {
  const hipvmm::region taken = std::move(region);
  CHECK_THROWS_AS(region.commit(0, unit), std::invalid_argument);
  CHECK_THROWS_AS(region.decommit(0, unit), std::invalid_argument);
  CHECK_THROWS_AS(region.trim(0, stream), std::invalid_argument);
  CHECK_THROWS_AS(region.extend(unit, unit), std::invalid_argument);
  CHECK_THROWS_AS(region.grant(first_device), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(region.device()), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(region.rights()), std::invalid_argument);
  CHECK(region.access(first_device) == access_right::none);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
