// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"

// Chunks that move while work in flight still uses them by their old addresses.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Three chunks at 0, 2 and 5, of 2, 1 and 1 granules, with tags.
struct tagged_chunks : region_of<16> {
  tagged_chunks() {
    commit_as_granted(region, 0, 2 * unit);
    region.commit(2 * unit, unit);
    region.commit(5 * unit, unit);
    write_tags(region, 0, 3, 1, stream);
    write_tag(region, 5, 1, stream);
  }
  /// Whether granule `index` shows the tag of granule `written`.
  [[nodiscard]] bool shows(std::size_t index, std::size_t written, std::uint32_t seed) const {
    return read_bytes(stream, advance(region.base(), index * unit), tag_bytes) ==
           pattern(tag_bytes, seed * 1000 + static_cast<std::uint32_t>(written));
  }
};

TEST_CASE_FIXTURE(tagged_chunks, "region: a range of no bytes has no chunk, inside one either") {
  CHECK(region.move_range(unit, 0, memory_location{first_device}, stream) == 0);
  CHECK(region.effective_access(unit, 0).empty());
}

#define REQUIRE_MOVES(region)                                   \
  HIPVMM_REQUIRE_ANY_LAYOUT();                                  \
  if (!(region).can_move_chunks()) {                            \
    MESSAGE("skipped: no chunk is used at two addresses here"); \
    return;                                                     \
  }

TEST_CASE_FIXTURE(tagged_chunks, "region: until a move ends both addresses show the same bytes") {
  REQUIRE_MOVES(region);
  region.move_chunk(0, 8 * unit);
  CHECK(shows(0, 0, 1));
  write_tag(region, 8, 2, stream);
  CHECK(shows(0, 8, 2));
  write_tag(region, 1, 3, stream);
  CHECK(shows(9, 1, 3));
  region.end_move(0);
  CHECK_THROWS_AS(static_cast<void>(get_access(region.base(), first_device)), hip_error);
  CHECK(shows(9, 1, 3));
}

TEST_CASE_FIXTURE(tagged_chunks,
                  "region: moves to and from where there is no place or chunk throw") {
  REQUIRE_MOVES(region);
  for (const std::size_t from : {1U, 3U, 16U, 40U})
    CHECK_THROWS_AS(region.move_chunk(from * unit, 8 * unit), std::invalid_argument);
  // On itself, on others, half on them.
  for (const std::size_t to : {0U, 1U, 2U, 4U, 5U})
    CHECK_THROWS_AS(region.move_chunk(0, to * unit), std::invalid_argument);
  CHECK_THROWS_AS(region.move_chunk(0, 8 * unit + 1), std::invalid_argument);
  for (const std::size_t to : {15U, 16U, 40U})
    CHECK_THROWS_AS(region.move_chunk(0, to * unit), std::out_of_range);
  CHECK_THROWS_AS(region.end_move(0), std::invalid_argument);
  CHECK(region.chunk_count() == 3);
  check_tags(region, 0, 3, 1, stream);
}

TEST_CASE_FIXTURE(tagged_chunks, "region: what would disturb a move that has not ended throws") {
  REQUIRE_MOVES(region);
  region.move_chunk(0, 8 * unit);
  CHECK_THROWS_AS(region.commit(0, unit), std::invalid_argument);
  CHECK_THROWS_AS(region.commit(0, 16 * unit), std::invalid_argument);
  CHECK_THROWS_AS(region.move_chunk(5 * unit, unit), std::invalid_argument);
  CHECK_THROWS_AS(region.decommit(0, 16 * unit), std::invalid_argument);
  CHECK_THROWS_AS(region.trim(unit, stream), std::invalid_argument);
  CHECK_THROWS_AS(region.extend(16 * unit, 0), std::invalid_argument);
  CHECK_THROWS_AS(region.extend(64 * unit, 0), std::invalid_argument);
  CHECK(region.committed_bytes() == 4 * unit);
  CHECK(shows(0, 0, 1));
  CHECK(shows(8, 0, 1));
  region.end_move(0);
  CHECK(region.trim(9 * unit, stream) == 0);
  region.extend(64 * unit, 0);
  CHECK(has_tag(region, 2, 1, stream));
}

TEST_CASE_FIXTURE(tagged_chunks, "region: rights reach both addresses of a chunk that moves") {
  REQUIRE_MOVES(region);
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const auto check_right = [&](access_right right) {
    for (const std::size_t index : {0U, 1U, 5U, 8U, 9U, 10U})
      CHECK(get_access(advance(region.base(), index * unit), peer) == right);
  };
  region.grant(peer, access_right::read_write);
  region.move_chunk(2 * unit, 10 * unit);
  region.end_move(2 * unit);
  region.move_chunk(0, 8 * unit);
  check_right(access_right::read_write);
  region.revoke(peer);
  check_right(access_right::none);
  region.grant(peer, access_right::read_write);
  check_right(access_right::read_write);
}

TEST_CASE("region: one that ends or is retired during a move releases everything") {
  chunk_cache keeps_all{64 * granule()};
  const region_options options{.cache = &keeps_all};
  for (const bool retires : {false, true}) {
    region one{first_device, 16 * granule(), options};
    REQUIRE_MOVES(one);
    one.commit(8 * granule(), 2 * granule());
    one.move_chunk(8 * granule(), 0);
    one.move_chunk(0, 4 * granule());
    if (retires) one.retire();
  }
  drain_retired_memory();
  CHECK(keeps_all.statistics().bytes == 2 * granule());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
