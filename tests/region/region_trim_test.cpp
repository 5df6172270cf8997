// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

using thirty_two_granules = region_of<32>;

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim keeps the granule that holds the last byte") {
  for (std::size_t index = 0; index < 4; ++index) region.commit(index * unit, unit);
  CHECK(region.trim(unit + 1, stream) == 2 * unit);
  CHECK(region.committed_from(0) == 2 * unit);
}

TEST_CASE_FIXTURE(thirty_two_granules,
                  "region: trim replaces a chunk that reaches far across when told to") {
  region.commit(0, 16 * unit);
  write_tags(region, 0, 16, 1, stream);
  void* const base = region.base();
  CHECK(region.trim(3 * unit, stream, tail_chunk::replace) == 13 * unit);
  CHECK(region.committed_bytes() == 3 * unit);
  CHECK(region.committed_from(0) == 3 * unit);
  CHECK(region.chunk_count() == 1);
  CHECK(region.base() == base);
  check_tags(region, 0, 3, 1, stream);
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim keeps the order of a stream's work") {
  region.commit(0, 16 * unit);
  write_tags(region, 0, 3, 1, stream);
  fill_async(stream, region.base(), 0x3C, 3 * unit);
  region.trim(3 * unit, stream, tail_chunk::replace);
  CHECK(read_bytes(stream, region.base(), 3 * unit) == byte_vector(3 * unit, 0x3C));
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim replaces a chunk in the middle of others") {
  region.commit(0, 2 * unit);
  region.commit(2 * unit, 8 * unit);
  region.commit(10 * unit, 4 * unit);
  write_tags(region, 0, 14, 1, stream);
  CHECK(region.trim(5 * unit, stream, tail_chunk::replace) == 9 * unit);
  CHECK(region.committed_from(0) == 5 * unit);
  check_tags(region, 0, 5, 1, stream);
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim leaves an eighth of what stays") {
  region.commit(0, 9 * unit);
  CHECK(region.trim(8 * unit, stream, tail_chunk::replace) == 0);
  CHECK(region.committed_bytes() == 9 * unit);
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim releases more than an eighth of what stays") {
  region.commit(0, 10 * unit);
  CHECK(region.trim(8 * unit, stream, tail_chunk::replace) == 2 * unit);
  CHECK(region.committed_bytes() == 8 * unit);
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim keeps the rights over the chunk it makes") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  region.commit(0, 16 * unit);
  region.grant(peer, access_right::read);
  region.trim(2 * unit, stream, tail_chunk::replace);
  CHECK(get_access(region.base(), peer) == access_right::read);
  CHECK(get_access(region.base(), first_device) == access_right::read_write);
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim works for an owner that may only read") {
  region.commit(0, 16 * unit);
  write_tags(region, 0, 16, 1, stream);
  region.grant(first_device, access_right::read);
  CHECK_NOTHROW(region.trim(2 * unit, stream, tail_chunk::replace));
  CHECK(region.committed_from(0) >= 2 * unit);
  CHECK(get_access(region.base(), first_device) == access_right::read);
  check_tags(region, 0, 2, 1, stream);
}

TEST_CASE_FIXTURE(thirty_two_granules,
                  "region: trim keeps a tail that no smaller chunk can replace behind a hole") {
  region.commit(0, 4 * unit);
  region.commit(8 * unit, 4 * unit);
  write_tags(region, 8, 9, 1, stream);
  const std::size_t released = region.trim(9 * unit, stream, tail_chunk::replace);
  CHECK(released == (takes_any_layout() ? 3 * unit : 0));
  CHECK(region.committed_bytes() == 8 * unit - released);
  check_tags(region, 8, 9, 1, stream);
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: trim beyond the region throws out_of_range") {
  region.commit(0, unit);
  CHECK_THROWS_AS(region.trim(32 * unit + 1, stream), std::out_of_range);
  CHECK(region.committed_bytes() == unit);
}

TEST_CASE_FIXTURE(thirty_two_granules, "region: a bad range of a decommit in a stream throws") {
  region.commit(0, unit);
  CHECK_THROWS_AS(region.decommit(unit + 1, unit, stream), std::invalid_argument);
  CHECK_THROWS_AS(region.decommit(31 * unit, 2 * unit, stream), std::out_of_range);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
