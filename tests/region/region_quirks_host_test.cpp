// SPDX-License-Identifier: MIT
// The work-arounds that a capability record asks of a region, each under a profile of the host
// provider, or a plan of faults, that shows the defect.
#include "region/backing.hpp"
#include "region/region_test.hpp"
#include "support/host/host_test.hpp"
#include "support/region/held_memory.hpp"
#include "support/waiting_thread.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

constexpr const char* no_tail_access = "tail_access=no,base_access=yes";
constexpr const char* lying_maps = "reports_failed_map=no";

/// Three neighbouring chunks of a region, and a peer that may read.
struct row_of_three {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  hipvmm::region region;
  void* const base = region.base();

  explicit row_of_three(const region_options& options = {})
      : region{first_device, 16 * granule(), options} {
    region.grant(second_device, access_right::read);
    for (const std::size_t index : {0U, 1U, 2U}) region.commit(index * unit, unit);
    write_tags(region, 0, 3, 1, stream);
  }

  void check_contents(std::size_t end) const {
    for (std::size_t index = 0; index < end; ++index) {
      CAPTURE(index);
      CHECK(has_tag(region, index, 1, stream));
      const void* const at = advance(region.base(), index * unit);
      CHECK(get_access(at, first_device) == access_right::read_write);
      CHECK(get_access(at, second_device) == access_right::read);
    }
  }
  void check_unchanged() const {
    CHECK(region.base() == base);
    CHECK(region.committed_bytes() == 3 * unit);
    CHECK(region.chunk_count() == 3);
    check_contents(3);
  }
};

constexpr auto make_row = [] { return std::make_unique<row_of_three>(); };
constexpr auto row_is_unchanged = [](auto& subject) { subject.check_unchanged(); };

/// A chunk mapped at granule `index` of a region behind its back.
class intruder {
 public:
  intruder(const region& where, std::size_t index) : at_{advance(where.base(), index * granule())} {
    REQUIRE(hipMemMap(at_, granule(), 0, chunk_.get(), 0) == hipSuccess);
  }
  ~intruder() { CHECK(hipMemUnmap(at_, granule()) == hipSuccess); }
  intruder& operator=(intruder&&) = delete;

 private:
  physical_chunk chunk_{first_device, granule()};
  void* at_;
};

HIPVMM_TEST_CASE_IN(
    "region: where tail access fails each mapping gets its rights from the first on",
    under("rocm-7.1", no_tail_access)) {
  const call_counter calls{"hipMemSetAccess"};
  row_of_three subject;
  CHECK(calls.count() == 3);
  subject.check_contents(3);
  subject.region.grant(second_device, access_right::read_write);
  CHECK(calls.count() == 4);
  CHECK(get_access(advance(subject.base, 2 * subject.unit), second_device) ==
        access_right::read_write);
}

HIPVMM_TEST_CASE_IN("region: where tail access fails what is mapped ahead gets its rights too",
                    under("rocm-7.1", no_tail_access)) {
  row_of_three subject;
  subject.region.prepare(subject.unit, prefetch_level::mapped);
  detail::wait_for_background_tasks();
  CHECK(subject.region.prepared_bytes() == subject.unit);
  subject.region.commit(3 * subject.unit, 2 * subject.unit);
  for (const std::size_t index : {3U, 4U})
    CHECK(get_access(advance(subject.base, index * subject.unit), second_device) ==
          access_right::read);
  // Right behind a chunk that is mapped and not yet part of the region.
  subject.region.prepare(subject.unit, prefetch_level::mapped);
  detail::wait_for_background_tasks();
  subject.region.commit(6 * subject.unit, subject.unit);
  CHECK(get_access(advance(subject.base, 6 * subject.unit), second_device) == access_right::read);
}

HIPVMM_TEST_CASE_IN("region: where tail access fails a region that moves keeps all rights",
                    under("rocm-7.1", no_tail_access)) {
  row_of_three subject;
  const address_reservation blocker{subject.unit, 0,
                                    advance(subject.base, subject.region.max_bytes())};
  CHECK(subject.region.extend(64 * subject.unit, 20 * subject.unit));
  subject.check_contents(3);
  CHECK(get_access(advance(subject.region.base(), 19 * subject.unit), second_device) ==
        access_right::read);
}

HIPVMM_TEST_CASE_IN(
    "region: where tail access fails a chunk that moves gets its rights from the first on",
    under("rocm-7.1", no_tail_access)) {
  row_of_three subject;
  // Right behind its own old place, and behind one that was left.
  subject.region.move_chunk(2 * subject.unit, 3 * subject.unit);
  subject.region.move_chunk(0, 4 * subject.unit);
  subject.region.grant(second_device, access_right::read_write);
  for (const std::size_t index : {0U, 1U, 2U, 3U, 4U})
    CHECK(get_access(advance(subject.base, index * subject.unit), second_device) ==
          access_right::read_write);
  subject.region.end_move(0);
  subject.region.end_move(2 * subject.unit);
  CHECK(subject.region.decommit(0, 16 * subject.unit) == 3 * subject.unit);
}

HIPVMM_TEST_CASE_IN("region: where tail access fails chunks beside a hole must have one size",
                    under("rocm-7.1", no_tail_access)) {
  row_of_three subject;
  CHECK_THROWS_WITH_AS(subject.region.commit(5 * subject.unit, 2 * subject.unit),
                       doctest::Contains("commit in steps of one size"), unsupported);
  subject.check_unchanged();
  subject.region.commit(5 * subject.unit, subject.unit);
  CHECK(get_access(advance(subject.base, 5 * subject.unit), second_device) == access_right::read);
  subject.region.grant(second_device, access_right::read_write);
  // Without a hole any sizes do.
  subject.region.commit(3 * subject.unit, 2 * subject.unit);
  for (const std::size_t index : {0U, 3U, 4U, 5U})
    CHECK(get_access(advance(subject.base, index * subject.unit), second_device) ==
          access_right::read_write);
}

HIPVMM_TEST_CASE_IN("region: a peer that is granted late in rocm-7.14 leaves the owner its bytes",
                    under("rocm-7.14", "peer_access=yes")) {
  row_of_three subject;
  subject.region.grant(second_device, access_right::read_write);
  subject.region.grant(second_device, access_right::none);
  subject.region.grant(second_device, access_right::read);
  subject.check_unchanged();
  write_tags(subject.region, 0, 3, 2, subject.stream);
  check_tags(subject.region, 0, 3, 2, subject.stream);
}

TEST_CASE("region: where two addresses of a chunk are not coherent nothing moves") {
  const assumed_capability found{"coherent_aliases=no"};
  row_of_three subject;
  CHECK_FALSE(subject.region.can_move_chunks());
  CHECK_THROWS_AS(subject.region.move_chunk(0, 4 * subject.unit), unsupported);
  subject.check_unchanged();
}

HIPVMM_TEST_CASE_IN("region: commit and grant that fail where tail access fails change nothing",
                    under("rocm-7.1", no_tail_access)) {
  fault_sweep{"commit from the base"}.run(
      make_row, [](auto& it) { it.region.commit(3 * it.unit, 2 * it.unit); }, row_is_unchanged,
      [](auto& it) { CHECK(it.region.committed_bytes() == 5 * it.unit); });
  fault_sweep{"grant from the base"}.run(
      make_row, [](auto& it) { it.region.grant(second_device, access_right::read_write); },
      row_is_unchanged,
      [](auto& it) {
        for (const std::size_t index : {0U, 1U, 2U})
          CHECK(get_access(advance(it.base, index * it.unit), second_device) ==
                access_right::read_write);
      });
}

HIPVMM_CHILD("commits where hipMemMap reports success and maps nothing") {
  row_of_three subject;
  const intruder mapped{subject.region, 5};
  const hipvmm_host_counters before = live_objects();
  CHECK_THROWS_WITH_AS(subject.region.commit(3 * subject.unit, 4 * subject.unit),
                       doctest::Contains("hipMemMap failed"), hip_error);
  CHECK(live_objects() == before);
  subject.check_unchanged();
  subject.region.commit(3 * subject.unit, 2 * subject.unit);
  CHECK(subject.region.committed_from(0) == 5 * subject.unit);
}

TEST_CASE("region: a map that fails unseen is found and leaves all as it was" *
          names_its_profiles) {
  const std::string lies = lying_maps;
  for (const auto& environment : {under("rocm-6.2", lies), under("rocm-6.4", lies),
                                  under("rocm-7.1", lies + "," + no_tail_access)})
    check_child("commits where hipMemMap reports success and maps nothing", environment);
}

HIPVMM_TEST_CASE_IN("region: commit that fails while maps are verified changes nothing",
                    under("rocm-6.4", lying_maps)) {
  fault_sweep{"verified commit"}.run(
      make_row, [](auto& it) { it.region.commit(3 * it.unit, 2 * it.unit); }, row_is_unchanged,
      [](auto& it) { CHECK(it.region.committed_bytes() == 5 * it.unit); });
}

TEST_CASE("region: where maps cancel, what commit backs is found by the work behind it") {
  const planned_faults faults{"visible_after=5ms"};
  const assumed_capability found{"visible_at_once=no,visibility_delay=5ms"};
  row_of_three subject;
  subject.check_contents(3);
  // A chunk whose memory is there, and one that is mapped.
  for (const prefetch_level how : {prefetch_level::created, prefetch_level::mapped}) {
    const std::size_t index = subject.region.committed_bytes() / subject.unit;
    subject.region.prepare(subject.unit, how);
    detail::wait_for_background_tasks();
    subject.region.commit(index * subject.unit, subject.unit);
    write_tags(subject.region, index, index + 1, 1, subject.stream);
  }
  subject.check_contents(5);
}

TEST_CASE("region: where maps cancel, work behind a move finds the bytes") {
  const planned_faults faults{"visible_after=5ms"};
  const assumed_capability found{"visible_at_once=no,visibility_delay=5ms"};
  row_of_three subject;
  const address_reservation blocker{subject.unit, 0,
                                    advance(subject.base, subject.region.max_bytes())};
  CHECK(subject.region.extend(64 * subject.unit, 4 * subject.unit));
  subject.check_contents(3);
}

TEST_CASE("region: where maps cancel, a chunk that is replaced keeps its bytes") {
  const planned_faults faults{"visible_after=5ms"};
  const assumed_capability found{"visible_at_once=no,visibility_delay=5ms"};
  const stream stream;
  region region{first_device, 32 * granule()};
  region.commit(0, 16 * granule());
  write_tags(region, 0, 16, 1, stream);
  CHECK(region.trim(3 * granule(), stream, tail_chunk::replace) == 13 * granule());
  check_tags(region, 0, 3, 1, stream);
}

TEST_CASE("region: where maps cancel, a chunk mapped ahead has waited already") {
  const assumed_capability found{"visible_at_once=no,visibility_delay=20ms"};
  const std::size_t unit = granule();
  region ahead_of{first_device, 16 * unit};
  region behind{first_device, 16 * unit};
  ahead_of.prepare(unit, prefetch_level::mapped);
  detail::wait_for_background_tasks();
  REQUIRE(ahead_of.prepared_bytes() == unit);
  behind.commit(0, unit);  // mapped later, so that the other has cancelled when this returns
  const std::uint64_t waits = detail::waits_so_far();
  ahead_of.commit(0, unit);
  CHECK(detail::waits_so_far() == waits);
}

TEST_CASE("region: where maps cancel, grants do not wait") {
  const assumed_capability found{"visible_at_once=no,visibility_delay=20ms"};
  row_of_three subject;
  const std::uint64_t waits = detail::waits_so_far();
  subject.region.grant(second_device, access_right::read_write);
  CHECK(detail::waits_so_far() == waits);
}

TEST_CASE("region: where maps cancel, a chunk that moves is found by the work behind it") {
  const assumed_capability found{"visible_at_once=no,visibility_delay=2ms"};
  row_of_three subject;
  const planned_faults invisible{"visible_after=2ms"};
  subject.region.move_chunk(0, 4 * subject.unit);
  const auto tag = pattern(tag_bytes, 1000);
  CHECK(read_bytes(subject.stream, advance(subject.base, 4 * subject.unit), tag_bytes) == tag);
}

TEST_CASE("region: without quirks nothing waits for mappings") {
  const assumed_capability found{"visible_at_once=yes"};
  const std::uint64_t waits = detail::waits_so_far();
  const row_of_three subject;
  CHECK(detail::waits_so_far() == waits);
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory trim to nothing renews them",
                    under("rocm-6.4", kept_memory)) {
  const held_memory held;
  row_of_three subject;
  const std::size_t most = subject.region.max_bytes();
  CHECK(subject.region.trim(subject.unit, subject.stream) == 2 * subject.unit);
  CHECK(held.granules() == 3);  // as long as bytes are left and may not be touched
  CHECK(subject.region.trim(0, subject.stream) == subject.unit);
  CHECK(held.granules() == 0);
  CHECK(subject.region.base() == subject.base);
  CHECK(subject.region.max_bytes() == most);
  subject.region.commit(0, 2 * subject.unit);
  write_tags(subject.region, 0, 2, 1, subject.stream);
  subject.check_contents(2);
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory decommit of everything renews them",
                    under("rocm-6.2", kept_memory)) {
  const held_memory held;
  row_of_three subject;
  subject.region.prepare(subject.unit, prefetch_level::mapped);
  detail::wait_for_background_tasks();
  CHECK(subject.region.decommit(0, 16 * subject.unit) == 3 * subject.unit);
  CHECK(held.granules() == 0);
  CHECK(subject.region.base() == subject.base);
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory they are renewed when all work has passed",
                    under("rocm-6.4", kept_memory)) {
  row_of_three subject;
  blocked_stream other{first_device};
  opened_by_wait opener{[&] { other.release(); }};
  const call_counter frees{"hipMemAddressFree"};
  subject.region.trim(0, subject.stream);
  CHECK(frees.count() > 0);
  CHECK(opener.was_waited_for());
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory those of an emptied one outlast all work",
                    under("rocm-6.4", kept_memory)) {
  row_of_three subject{{.when_empty = empty_policy::keeps_addresses}};
  blocked_stream other{first_device};
  subject.region.trim(0, subject.stream);
  const call_counter frees{"hipMemAddressFree"};
  subject.region.retire();
  CHECK(frees.count() == 0);
  other.release();
  drain_retired_memory();
  CHECK(frees.count() == 2);  // with the look for a record that stayed
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory chunks that wait are waited for",
                    under("rocm-6.4", kept_memory)) {
  const held_memory held;
  const stream other;
  row_of_three subject;
  for (unsigned char i = 0; i < 64; ++i) fill_async(other, subject.base, i, 3 * subject.unit);
  subject.region.trim(subject.unit, other);
  subject.region.trim(0, other);
  CHECK(held.granules() == 0);
  CHECK(subject.region.base() == subject.base);
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory trim that replaces gives all of it back",
                    under("rocm-7.1", std::string{kept_memory} + "," + no_tail_access)) {
  const held_memory held;
  row_of_three subject;
  subject.region.commit(3 * subject.unit, 8 * subject.unit);
  write_tags(subject.region, 3, 5, 1, subject.stream);
  CHECK(subject.region.trim(5 * subject.unit, subject.stream, tail_chunk::replace) ==
        6 * subject.unit);
  CHECK(held.granules() == 5);
  CHECK(subject.region.base() == subject.base);
  subject.check_contents(5);
}

HIPVMM_TEST_CASE_IN("region: where addresses hold memory one that may not move keeps them",
                    under("rocm-6.4", kept_memory)) {
  const held_memory held;
  {
    row_of_three subject{{.when_empty = empty_policy::keeps_addresses}};
    const call_counter frees{"hipMemAddressFree"};
    CHECK(subject.region.trim(0, subject.stream, tail_chunk::replace) == 3 * subject.unit);
    CHECK(frees.count() == 0);
    CHECK(subject.region.base() == subject.base);
  }
  CHECK(held.granules() == 0);
}

HIPVMM_TEST_CASE_IN(
    "region: where its addresses are gone a region that is renewed goes on at others",
    under("rocm-6.4", kept_memory)) {
  const held_memory held;
  const error_recorder reported;
  row_of_three subject;
  {
    // The second is the look for a record that stayed.
    const planned_fault fault{"hipMemAddressReserve", 3, hipErrorOutOfMemory};
    CHECK(subject.region.trim(subject.unit, subject.stream, tail_chunk::replace) ==
          2 * subject.unit);
    CHECK(fault.struck());
  }
  CHECK(reported.count() == 1);
  CHECK(subject.region.base() != subject.base);
  CHECK(subject.region.max_bytes() == 16 * subject.unit);
  CHECK(held.granules() == 1);
  subject.check_contents(1);
}

HIPVMM_TEST_CASE_IN("region: renewal that fails keeps every byte that stays",
                    under("rocm-6.4", kept_memory)) {
  const auto kept = [](auto& it) {
    CHECK(it.region.committed_from(0) >= 2 * it.unit);
    CHECK(it.region.max_bytes() == 16 * it.unit);
    it.check_contents(2);
  };
  fault_sweep{"partial renewal", after_failure::capacity}.run(
      make_row, [](auto& it) { it.region.trim(2 * it.unit, it.stream, tail_chunk::replace); }, kept,
      kept);
}

HIPVMM_TEST_CASE_IN("region: renewal that fails leaves a region that can be used",
                    under("rocm-6.4", kept_memory)) {
  const auto usable = [](auto& it) {
    CHECK(it.region.max_bytes() == 16 * it.unit);
    it.region.commit(0, 3 * it.unit);
    write_tags(it.region, 0, 3, 1, it.stream);
    it.check_contents(3);
  };
  fault_sweep{"renewal of nothing", after_failure::capacity}.run(
      make_row, [](auto& it) { it.region.trim(0, it.stream); }, usable, usable);
}

HIPVMM_TEST_CASE_IN("region: a region that was emptied once is not renewed for nothing",
                    under("rocm-6.4", kept_memory)) {
  row_of_three subject;
  subject.region.trim(0, subject.stream);
  const call_counter frees{"hipMemAddressFree"};
  subject.region.trim(0, subject.stream);
  subject.region.decommit(0, 16 * subject.unit);
  CHECK(frees.count() == 0);
}

TEST_CASE("region: where memory comes back by itself the addresses stay") {
  const assumed_capability found{"returns_memory=yes"};
  row_of_three subject;
  const call_counter frees{"hipMemAddressFree"};
  subject.region.trim(0, subject.stream);
  CHECK(frees.count() == 0);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
