// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "support/region/region_with_room.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// A region of four granules, three of them backed by two chunks and tagged.
struct small_region : region_of<4> {
  void* const old_base = region.base();

  small_region() {
    commit_as_granted(region, 0, 2 * unit);
    region.commit(3 * unit, unit);
    write_tags(region, 0, 2, 1, stream);
    write_tag(region, 3, 1, stream);
  }

  void check_contents() {
    check_tags(region, 0, 2, 1, stream);
    CHECK(has_tag(region, 3, 1, stream));
  }

  /// Takes the addresses behind the region, so that it cannot grow in place. If HIP gives
  /// others, those behind are taken already.
  [[nodiscard]] address_reservation block_addresses_behind() const {
    return address_reservation{unit, 0, advance(region.base(), region.max_bytes())};
  }
};

TEST_CASE_FIXTURE(small_region, "region: extend that must move keeps contents and chunks") {
  const auto blocker = block_addresses_behind();
  CHECK(region.extend(16 * unit, 0));
  CHECK(region.base() != old_base);
  CHECK(region.max_bytes() >= 16 * unit);
  CHECK(region.committed_bytes() == 3 * unit);
  CHECK(region.chunk_count() == (takes_any_layout() ? 2 : 3));
  check_contents();
}

TEST_CASE_FIXTURE(small_region, "region: extend that must move leaves nothing at the old base") {
  const auto blocker = block_addresses_behind();
  REQUIRE(region.extend(16 * unit, 0));
  CHECK_THROWS_AS(static_cast<void>(get_access(old_base, first_device)), hip_error);
}

TEST_CASE_FIXTURE(small_region, "region: extend that must move keeps every right") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  region.grant(peer, access_right::read);
  const auto blocker = block_addresses_behind();
  REQUIRE(region.extend(16 * unit, 6 * unit));
  for (const std::size_t index : {0, 1, 3, 4, 5}) {
    const void* const at = advance(region.base(), index * unit);
    CHECK(get_access(at, first_device) == access_right::read_write);
    CHECK(get_access(at, peer) == access_right::read);
  }
}

TEST_CASE_FIXTURE(small_region, "region: extend rounds up to the granularity") {
  region.extend(8 * unit + 1, 4 * unit + 1);
  CHECK(region.max_bytes() >= 9 * unit);
  CHECK(region.committed_from(0) == 5 * unit);
}

TEST_CASE_FIXTURE(small_region, "region: extend to the present size only commits") {
  CHECK_FALSE(region.extend(4 * unit, 4 * unit));
  CHECK(region.base() == old_base);
  CHECK(region.max_bytes() == 4 * unit);
  CHECK(region.committed_from(0) == 4 * unit);
  check_contents();
}

TEST_CASE_FIXTURE(small_region, "region: extend below the present size throws") {
  CHECK_THROWS_AS(region.extend(2 * unit, 0), std::invalid_argument);
  CHECK_THROWS_AS(region.extend(8 * unit, 9 * unit), std::invalid_argument);
  CHECK(region.max_bytes() == 4 * unit);
  check_contents();
}

/// A region of eight granules, the last four backed by two chunks and tagged.
struct late_region : region_of<8> {
  void* const old_base = region.base();

  late_region() {
    region.commit(4 * unit, 2 * unit);
    region.commit(6 * unit, 2 * unit);
    write_tags(region, 4, 8, 1, stream);
  }
  /// Granules counted as they were before the region moved.
  void check_contents(std::size_t first) {
    for (std::size_t index = 4; index < 8; ++index) {
      const auto* const at = advance(region.base(), (index - first) * unit);
      CHECK(read_bytes(stream, at, tag_bytes) ==
            pattern(tag_bytes, 1000 + static_cast<std::uint32_t>(index)));
    }
  }
};

TEST_CASE_FIXTURE(late_region, "region: rebase leaves the addresses in front behind") {
  region.rebase(4 * unit, 8 * unit, 4 * unit);
  CHECK(region.base() != old_base);
  CHECK(region.max_bytes() == 8 * unit);
  CHECK(region.committed_from(0) == 4 * unit);
  CHECK(region.chunk_count() == 2);
  check_contents(4);
  CHECK_THROWS_AS(static_cast<void>(get_access(advance(old_base, 4 * unit), first_device)),
                  hip_error);
  region.rebase(0, 16 * unit, 6 * unit);
  CHECK(region.max_bytes() == 16 * unit);
  CHECK(region.committed_from(0) == 6 * unit);
  check_contents(4);
}

TEST_CASE_FIXTURE(late_region, "region: rebase with bad arguments throws and changes nothing") {
  CHECK_THROWS_AS(region.rebase(5 * unit, 8 * unit, 0), std::invalid_argument);
  CHECK_THROWS_AS(region.rebase(4 * unit + 1, 8 * unit, 0), std::invalid_argument);
  CHECK_THROWS_WITH_AS(region.rebase(4 * unit, 4 * unit, 5 * unit),
                       doctest::Contains("raise max_bytes or commit less"), std::invalid_argument);
  CHECK_THROWS_AS(region.rebase(4 * unit, 0, 0), std::invalid_argument);
  CHECK_THROWS_AS(region.rebase(9 * unit, 8 * unit, 0), std::out_of_range);
  CHECK(region.base() == old_base);
  check_contents(0);
}

TEST_CASE("region: extend leaves all bytes within reach of one copy and one fill") {
  const std::size_t unit = granule();
  std::optional<region> found = region_with_room(4 * unit, 12 * unit);
  if (!found) {
    MESSAGE("skipped: no region was given free addresses behind it");
    return;
  }
  const stream stream;
  region& region = *found;
  region.commit(0, 4 * unit);
  write_tags(region, 0, 4, 1, stream);
  region.extend(16 * unit, 16 * unit);
  check_tags(region, 0, 4, 1, stream);
  const std::vector<unsigned char> sent = pattern(16 * unit, 7);
  copy(stream, region.base(), sent.data(), sent.size());
  CHECK(read_bytes(stream, region.base(), sent.size()) == sent);
  copy(stream, advance(region.base(), 8 * unit), region.base(), 8 * unit);
  fill_async(stream, advance(region.base(), 3 * unit), 0x42, 2 * unit);
  CHECK(read_bytes(stream, advance(region.base(), 3 * unit), 2 * unit) ==
        byte_vector(2 * unit, 0x42));
}

TEST_CASE("region: extend with free addresses behind stays in place") {
  if (capability_of(first_device).needs(quirk::one_reservation)) {
    MESSAGE("skipped: copies cannot span two reservations, so the region moves");
    return;
  }
  const std::size_t unit = granule();
  std::optional<region> found = region_with_room(4 * unit, 12 * unit);
  if (!found) {
    MESSAGE("skipped: no region was given free addresses behind it");
    return;
  }
  const stream stream;
  region& region = *found;
  void* const base = region.base();
  region.commit(0, 3 * unit);
  write_tags(region, 0, 3, 1, stream);
  const bool moved = region.extend(16 * unit, 5 * unit);
  if (moved && HIPVMM_TEST_ON_CUDA != 0) {
    MESSAGE("skipped: CUDA gave other addresses than asked for, though those were free");
    return;
  }
  CHECK_FALSE(moved);
  CHECK(region.base() == base);
  CHECK(region.max_bytes() == 16 * unit);
  CHECK(region.committed_from(0) == 5 * unit);
  check_tags(region, 0, 3, 1, stream);

  // The old end is now in the middle: commits, trims and moves must not mind.
  region.commit(0, 16 * unit);
  write_tags(region, 3, 16, 1, stream);
  region.trim(6 * unit, stream, tail_chunk::replace);
  CHECK(region.committed_from(0) == 6 * unit);
  check_tags(region, 0, 6, 1, stream);
  const address_reservation blocker{unit, 0, advance(base, 16 * unit)};
  region.extend(64 * unit, 32 * unit);
  CHECK(region.committed_from(0) == 32 * unit);
  check_tags(region, 0, 6, 1, stream);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
