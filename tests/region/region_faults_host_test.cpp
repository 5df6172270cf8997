// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "support/device_use.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Two chunks of a region of sixteen granules, with a gap, a peer that may read, and tags.
struct gapped_region : region_of<16> {
  // The reservation behind the region makes extend() move it.
  address_reservation blocker{unit, 0, advance(region.base(), region.max_bytes())};
  void* const base = region.base();

  gapped_region() {
    region.grant(second_device, access_right::read);
    region.commit(0, 3 * unit);
    region.commit(5 * unit, 2 * unit);
    write_tags(region, 0, 3, 1, stream);
    write_tags(region, 5, 7, 1, stream);
  }

  [[nodiscard]] access_right peers_right(std::size_t index) const {
    return get_access(advance(region.base(), index * unit), second_device);
  }
  void check_contents(std::size_t end) const {
    for (const std::size_t index : {0, 1, 2, 5, 6}) {
      if (index >= end) break;
      CAPTURE(index);
      const void* const at = advance(region.base(), index * unit);
      CHECK(has_tag(region, index, 1, stream));
      CHECK(get_access(at, first_device) == access_right::read_write);
      CHECK(peers_right(index) == access_right::read);
    }
  }
  void check_unchanged() const {
    CHECK(region.base() == base);
    CHECK(region.max_bytes() == 16 * unit);
    CHECK(region.committed_bytes() == 5 * unit);
    CHECK(region.chunk_count() == 2);
    CHECK(region.committed_from(0) == 3 * unit);
    CHECK(region.committed_from(5 * unit) == 2 * unit);
    CHECK(region.access(second_device) == access_right::read);
    check_contents(16);
  }
};

using gapped_ptr = std::unique_ptr<gapped_region>;
constexpr auto make_gapped = [] { return std::make_unique<gapped_region>(); };
constexpr auto gapped_is_unchanged = [](auto& subject) { subject.check_unchanged(); };

TEST_CASE("region: a construction that fails leaves nothing") {
  fault_sweep{"region"}.run([] { const region value{device_ref{1}, 16 * granule()}; });
}

/// The backed bytes do not begin at the base, and one chunk is made ahead.
struct late_region : region_of<16> {
  void* const base = region.base();

  late_region() {
    region.grant(second_device, access_right::read);
    region.commit(8 * unit, 2 * unit);
    region.commit(10 * unit, 2 * unit);
    write_tags(region, 8, 12, 1, stream);
    region.prepare(2 * unit, prefetch_level::mapped);
    region.cancel_or_wait();
  }
  [[nodiscard]] bool has_contents(std::size_t first) const {
    for (std::size_t index = 8; index < 12; ++index) {
      const void* const at = advance(region.base(), (index - first) * unit);
      const auto tag = pattern(tag_bytes, 1000 + static_cast<std::uint32_t>(index));
      if (read_bytes(stream, at, tag_bytes) != tag) return false;
      if (get_access(at, second_device) != access_right::read) return false;
    }
    return true;
  }
};

TEST_CASE("region: rebase that fails leaves the region as it was") {
  fault_sweep{"rebase"}.run<late_region>(
      [](auto& subject) {
        subject.region.rebase(8 * subject.unit, 16 * subject.unit, 7 * subject.unit);
      },
      [](auto& subject) {
        CHECK(subject.region.base() == subject.base);
        CHECK(subject.region.committed_bytes() == 4 * subject.unit);
        CHECK(subject.region.committed_from(8 * subject.unit) == 4 * subject.unit);
        CHECK(subject.has_contents(0));
      },
      [](auto& subject) {
        CHECK(subject.region.committed_from(0) == 7 * subject.unit);
        CHECK(subject.has_contents(8));
      });
}

TEST_CASE("region: a call that fails leaves the region as it was") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  struct call {
    const char* name;
    std::function<void(gapped_region&)> made;
    std::function<void(gapped_region&)> done;
  };
  const call calls[] = {
      {"commit", [](auto& it) { it.region.commit(0, 16 * it.unit); },
       [](auto& it) {
         CHECK(it.region.committed_from(0) == 16 * it.unit);
         CHECK(it.peers_right(10) == access_right::read);
         it.check_contents(16);
       }},
      {"decommit", [](auto& it) { it.region.decommit(0, 16 * it.unit); },
       [](auto& it) { CHECK(it.region.committed_bytes() == 0); }},
      {"grant", [](auto& it) { it.region.grant(second_device, access_right::read_write); },
       [](auto& it) {
         CHECK(it.region.access(second_device) == access_right::read_write);
         for (const std::size_t index : {0, 5})
           CHECK(it.peers_right(index) == access_right::read_write);
       }},
      {"revoke", [](auto& it) { it.region.revoke(second_device); },
       [](auto& it) {
         CHECK(it.region.access(second_device) == access_right::none);
         CHECK(it.peers_right(0) == access_right::none);
       }},
      {"extend", [](auto& it) { it.region.extend(64 * it.unit, 20 * it.unit); },
       [](auto& it) {
         CHECK(it.region.max_bytes() >= 64 * it.unit);
         CHECK(it.region.committed_from(0) == 20 * it.unit);
         it.check_contents(16);
       }}};
  for (const call& each : calls)
    fault_sweep{each.name}.run(make_gapped, each.made, gapped_is_unchanged, each.done);
}

TEST_CASE("region: a move that fails leaves the chunk where it was") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  fault_sweep{"move_chunk"}.run(
      make_gapped,
      [](auto& subject) { subject.region.move_chunk(5 * subject.unit, 8 * subject.unit); },
      [](auto& subject) {
        subject.check_unchanged();
        // Both places are as before.
        CHECK_THROWS_AS(subject.region.end_move(5 * subject.unit), std::invalid_argument);
        subject.region.commit(8 * subject.unit, subject.unit);
        subject.region.decommit(8 * subject.unit, subject.unit);
      },
      [](auto& subject) {
        CHECK(subject.region.committed_from(8 * subject.unit) == 2 * subject.unit);
        CHECK(subject.peers_right(8) == access_right::read);
      });
}

/// The same amid a move, which takes granules 5 and 6 to 8 and 9.
constexpr auto make_moving = [] {
  auto subject = make_gapped();
  subject->region.move_chunk(5 * subject->unit, 8 * subject->unit);
  return subject;
};
const auto check_moving = [](auto& subject) {
  CHECK(subject.region.committed_bytes() == 5 * subject.unit);
  for (const std::size_t index : {0, 2, 5, 6, 8, 9})
    CHECK(subject.peers_right(index) == access_right::read);
  subject.check_contents(3);
  CHECK_THROWS_AS(subject.region.commit(5 * subject.unit, subject.unit), std::invalid_argument);
};

TEST_CASE("region: the end of a move that fails leaves both addresses") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  fault_sweep{"end_move"}.run(
      make_moving, [](auto& subject) { subject.region.end_move(5 * subject.unit); }, check_moving,
      [](auto& subject) {
        subject.region.commit(5 * subject.unit, 2 * subject.unit);
        CHECK(subject.region.committed_bytes() == 7 * subject.unit);
      });
}

TEST_CASE("region: grant that fails amid a move leaves every right as it was") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  fault_sweep{"grant amid a move"}.run(
      make_moving,
      [](auto& subject) { subject.region.grant(second_device, access_right::read_write); },
      check_moving,
      [](auto& subject) {
        for (const std::size_t index : {0, 5, 8})
          CHECK(subject.peers_right(index) == access_right::read_write);
      });
}

TEST_CASE("region: grant that fails sets the rights back where it failed too") {
  HIPVMM_SKIP_UNDER(no_tail_access);
  region region{first_device, 8 * granule()};
  // No neighbours, which would be set by one call.
  for (const std::size_t index : {0U, 2U, 4U}) region.commit(index * granule(), granule());
  const call_counter calls{"hipMemSetAccess"};
  const planned_fault fault{"hipMemSetAccess", 2, hipErrorUnknown};
  CHECK_THROWS_AS(region.grant(device_ref{1}), hip_error);
  // HIP may have applied the first rights of the call that failed.
  CHECK(calls.count() == 4);
}

TEST_CASE("region: decommit that fails keeps a chunk that cannot be mapped again") {
  const hipvmm_host_counters before = live_objects();
  {
    region region{first_device, 8 * granule()};
    for (const std::size_t index : {0U, 1U, 2U}) region.commit(index * granule(), granule());
    const error_recorder reported;
    REQUIRE(hipvmm_host_set_faults("hipMemUnmap nth=2 error=hipErrorUnknown; "
                                   "hipMemMap nth=1 error=hipErrorUnknown") == nullptr);
    CHECK_THROWS_AS(region.decommit(0, 3 * granule()), hip_error);
    CHECK(reported.count() == 1);
    CHECK(region.committed_from(0) == 3 * granule());
    CHECK(region.chunk_count() == 3);
    REQUIRE(hipvmm_host_set_faults("hipMemMap error=hipErrorUnknown") == nullptr);
    const auto grow = [&] { region.commit(3 * granule(), granule()); };
    CHECK_THROWS_WITH_AS(grow(), doctest::Contains("cannot be mapped again yet"), hip_error);
    hipvmm_host_set_faults(nullptr);
    grow();
    CHECK(region.committed_bytes() == 4 * granule());
    for (const std::size_t index : {0U, 1U, 2U})
      CHECK(get_access(advance(region.base(), index * granule()), first_device) ==
            access_right::read_write);
    CHECK(region.decommit(0, 3 * granule()) == 3 * granule());
  }
  CHECK(live_objects() == before);
}

// A chunk that reaches across is replaced last, after those behind were released:
// after a failure every byte before the end must be there.
const auto check_kept = [](auto& subject) {
  // If addresses hold memory they are renewed, and a failure then may cost them.
  if (!quirks::memory_kept.holds()) CHECK(subject.region.base() == subject.base);
  CHECK(subject.region.committed_from(0) >= subject.unit);
  subject.check_contents(1);
};

TEST_CASE("region: trim that fails keeps every byte before the end") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  fault_sweep{"trim", after_failure::capacity}.run(
      make_gapped,
      [](auto& subject) { subject.region.trim(subject.unit, subject.stream, tail_chunk::replace); },
      check_kept, check_kept);
}

TEST_CASE("region: decommit in a stream that fails leaves the region as it was") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  fault_sweep{"decommit in a stream", after_failure::capacity}.run(
      make_gapped,
      [](auto& subject) {
        const std::size_t unit = subject.unit;
        subject.region.decommit(unit, subject.region.max_bytes() - unit, subject.stream);
      },
      check_kept, check_kept);
}

TEST_CASE("region: trim without a fault releases all that it can") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  const gapped_ptr whole = make_gapped();
  whole->region.trim(whole->unit, whole->stream, tail_chunk::replace);
  CHECK(whole->region.committed_bytes() == whole->unit);
}

TEST_CASE("region: trim where no memory for a smaller chunk is to be had keeps the chunk") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  const gapped_ptr whole = make_gapped();
  chunk_cache::shared().trim();
  const physical_chunk rest{first_device,
                            align_down(free_memory_at_rest(first_device), whole->unit)};
  CHECK(whole->region.trim(5 * whole->unit + 1, whole->stream, tail_chunk::replace) == 0);
  whole->check_unchanged();
}

/// Two chunks that may be shared, with tags, and one that is in no region.
struct shared_region_and_chunk {
  static region_options shareable() { return region_options{.shareable = handle_type::posix_fd}; }

  const std::size_t unit = granule();
  hipvmm::stream stream;
  hipvmm::region region{first_device, 16 * unit, shareable()};
  physical_chunk chunk{first_device, unit};

  shared_region_and_chunk() {
    region.commit(0, unit);
    region.commit(unit, unit);
    write_tags(region, 0, 2, 1, stream);
  }
};

TEST_CASE("region: an adoption that fails leaves the chunk to its owner") {
  fault_sweep{"adopt"}.run<shared_region_and_chunk>(
      [](auto& all) { all.region.adopt(2 * all.unit, std::move(all.chunk)); },
      [](auto& all) {
        CHECK(!all.chunk.empty());
        CHECK(all.region.chunk_count() == 2);
        CHECK(all.region.committed_bytes() == 2 * all.unit);
        check_tags(all.region, 0, 2, 1, all.stream);
      },
      [](auto& all) {
        CHECK(all.chunk.empty());
        CHECK(all.region.chunk_count() == 3);
      });
}

TEST_CASE("region: an export that fails leaves no descriptor") {
  std::size_t exported = 0;
  fault_sweep{"export_chunks"}.run<shared_region_and_chunk>(
      [&](auto& all) { exported = all.region.export_chunks().size(); },
      [](auto& all) { check_tags(all.region, 0, 2, 1, all.stream); },
      [&](auto&) { CHECK(exported == 2); });
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
