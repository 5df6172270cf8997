// SPDX-License-Identifier: MIT
// Rights that a region replaces as a whole or chunk by chunk: the cost of calls, the state after
// failures, and chunks with rights of their own.
#include <hipvmm/core/driver_calls.hpp>
#include <hipvmm/core/observers/memory_events.hpp>
#include "region/region_test.hpp"
#include "support/host/host_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

const access_list peer_reads{{second_device, access_right::read}};
const access_list peer_writes{{second_device, access_right::read_write}};
const access_list peer_alone{{first_device, access_right::none},
                             {second_device, access_right::read}};

region_options with(const access_list& rights) { return region_options{.access = rights}; }

std::uint64_t set_access_calls() {
  const std::vector<driver_calls> all = memory_calls();
  return std::find_if(all.begin(), all.end(),
                      [](const auto& each) { return each.function == "hipMemSetAccess"; })
      ->count;
}

/// Chunks of one granule each at granules 0, 1, 2, 5 and 6, all of which device 1 may read.
struct five_chunks : region_of<16> {
  // The reservation behind the region makes extend() move it.
  address_reservation blocker{unit, 0, advance(region.base(), region.max_bytes())};

  explicit five_chunks(const access_list& rights = peer_reads) : region_of{with(rights)} {
    for (const std::size_t index : present) region.commit(index * unit, unit);
    write_tags(region, 0, 3, 1, stream);
    write_tags(region, 5, 7, 1, stream);
  }

  /// Whether HIP and the region agree on the rights of both devices to the chunk at `index`.
  [[nodiscard]] bool has(std::size_t index, access_right own, access_right peers) const {
    const access_map& recorded = region.rights_at(index * unit);
    const void* const at = advance(region.base(), index * unit);
    return recorded.get(first_device) == own && recorded.get(second_device) == peers &&
           get_access(at, first_device) == own && get_access(at, second_device) == peers;
  }
  void check_all(access_right own, access_right peers) const {
    for (const std::size_t index : present) {
      CAPTURE(index);
      CHECK(has(index, own, peers));
    }
  }
  /// As they were made.
  void check_unchanged() const {
    check_all(access_right::read_write, access_right::read);
    CHECK(region.access(second_device) == access_right::read);
    CHECK(region.committed_bytes() == 5 * unit);
    check_tags(region, 0, 3, 1, stream);
    check_tags(region, 5, 7, 1, stream);
  }
  static constexpr std::array<std::size_t, 5> present{0, 1, 2, 5, 6};
};

constexpr auto make_five = [] { return std::make_unique<five_chunks>(); };
constexpr auto five_unchanged = [](auto& subject) { subject.check_unchanged(); };
constexpr access_right no_right = access_right::none;
constexpr access_right reads = access_right::read;
constexpr access_right writes = access_right::read_write;

TEST_CASE_FIXTURE(five_chunks, "region: options give rights to all chunks from the first on") {
  check_all(writes, reads);
}

TEST_CASE("region: options that name what cannot be reserve nothing") {
  const hipvmm_host_counters before = live_objects();
  const auto make = [](const access_list& rights) {
    const hipvmm::region made{first_device, granule(), with(rights)};
  };
  CHECK_THROWS_WITH_AS(make({{device_ref{2}, reads}}),
                       doctest::Contains("device 2 cannot reach the memory of device 0"),
                       unsupported);
  CHECK_THROWS_WITH_AS(make({{device_ref{7}, reads}}), doctest::Contains("device 7"),
                       std::invalid_argument);
  CHECK(live_objects() == before);
}

TEST_CASE_FIXTURE(five_chunks, "region: set_access costs a call for each run of neighbours") {
  const std::uint64_t before = set_access_calls();
  region.set_access(peer_writes);
  CHECK(set_access_calls() - before == 2);
  region.grant(second_device, reads);
  CHECK(set_access_calls() - before == 4);
  region.set_access(0, 2 * unit, peer_writes);
  CHECK(set_access_calls() - before == 5);
  // Chunks that change from different rights are set apart.
  region.set_access(peer_writes);
  CHECK(set_access_calls() - before == 8);
  region.commit(3 * unit, 2 * unit);
  const std::uint64_t whole = set_access_calls();
  region.set_access({});
  CHECK(set_access_calls() - whole == 1);
  check_all(writes, no_right);
}

HIPVMM_TEST_CASE_IN("region: where a call takes one mapping each chunk is set by itself",
                    under("strict", "base_access=no")) {
  five_chunks all;
  const std::uint64_t before = set_access_calls();
  all.region.set_access(peer_writes);
  CHECK(set_access_calls() - before == 5);
  all.check_all(writes, writes);
}

TEST_CASE("region: neighbours that HIP refuses as one range are set by themselves") {
  five_chunks all;
  const planned_fault fault{"hipMemSetAccess", 1, hipErrorInvalidValue};
  all.region.set_access(0, 3 * all.unit, peer_writes);
  CHECK(fault.struck());
  for (const std::size_t index : {0, 1, 2}) CHECK(all.has(index, writes, writes));
  CHECK(all.has(5, writes, reads));
}

TEST_CASE_FIXTURE(five_chunks, "region: rights of a range go with the chunk that moves") {
  region.set_access(5 * unit, unit, peer_alone);
  region.move_chunk(5 * unit, 9 * unit);
  CHECK(has(9, no_right, reads));
  CHECK(get_access(advance(region.base(), 5 * unit), second_device) == reads);
  // Both addresses follow a change.
  region.set_access(9 * unit, unit, peer_writes);
  CHECK(has(9, writes, writes));
  CHECK(get_access(advance(region.base(), 5 * unit), second_device) == writes);
  region.end_move(5 * unit);
  region.commit(5 * unit, unit);
  CHECK(has(5, writes, reads));
}

TEST_CASE("region: rights of a range stay where the region moves") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  five_chunks all;
  all.region.set_access(all.unit, all.unit, peer_alone);
  CHECK(all.region.extend(32 * all.unit, 8 * all.unit));
  CHECK(all.has(0, writes, reads));
  CHECK(all.has(1, no_right, reads));
  CHECK(all.has(7, writes, reads));
  all.region.decommit(0, all.unit);
  all.region.rebase(all.unit, 32 * all.unit, 8 * all.unit);
  CHECK(all.has(0, no_right, reads));
  CHECK(all.has(1, writes, reads));
}

TEST_CASE("region: rights of a range stay where a smaller chunk takes a chunk's place") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  region target{first_device, 32 * granule()};
  const stream stream;
  target.commit(0, 16 * granule());
  write_tags(target, 0, 2, 1, stream);
  target.set_access(0, 16 * granule(), peer_writes);
  CHECK(target.trim(2 * granule(), stream, tail_chunk::replace) == 14 * granule());
  CHECK(target.rights_at(0).get(second_device) == writes);
  CHECK(get_access(target.base(), second_device) == writes);
  check_tags(target, 0, 2, 1, stream);
  // Bytes that the owner may not read are not carried over.
  target.commit(2 * granule(), 14 * granule());
  target.set_access(2 * granule(), 14 * granule(), peer_alone);
  CHECK(target.trim(3 * granule(), stream, tail_chunk::replace) == 0);
}

TEST_CASE_FIXTURE(five_chunks, "region: a prepared chunk has the rights of the region") {
  region.prepare(unit, prefetch_level::mapped);
  detail::wait_for_background_tasks();
  region.set_access(6 * unit, unit, peer_alone);
  region.set_access(0, unit, peer_alone);
  CHECK(region.prepared_bytes() == unit);
  region.commit(7 * unit, unit);
  CHECK(has(7, writes, reads));
  region.prepare(unit, prefetch_level::mapped);
  detail::wait_for_background_tasks();
  region.set_access(peer_writes);
  region.commit(8 * unit, unit);
  CHECK(has(8, writes, writes));
}

TEST_CASE_FIXTURE(region_of<32>, "region: a range that cuts a chunk throws and names the chunk") {
  region.commit(0, 4 * unit);
  const std::string text = "the chunk from offset 0 to " + std::to_string(4 * unit);
  for (const auto& [first, count] : {std::pair{0, 2}, std::pair{1, 3}, std::pair{2, 1}}) {
    CHECK_THROWS_WITH_AS(region.set_access(static_cast<std::size_t>(first) * unit,
                                           static_cast<std::size_t>(count) * unit, peer_reads),
                         doctest::Contains(text.c_str()), std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(region.set_access(0, 4 * unit - 1, peer_reads),
                       doctest::Contains(text.c_str()), std::invalid_argument);
  CHECK(get_access(region.base(), second_device) == no_right);
}

TEST_CASE_FIXTURE(five_chunks,
                  "region: a range with a hole, or beyond the region, throws and changes nothing") {
  CHECK_THROWS_WITH_AS(
      region.set_access(0, 4 * unit, peer_writes),
      doctest::Contains(("nothing is backed at offset " + std::to_string(3 * unit)).c_str()),
      std::invalid_argument);
  CHECK_THROWS_AS(region.set_access(3 * unit, unit, peer_writes), std::invalid_argument);
  CHECK_THROWS_AS(region.set_access(16 * unit, unit, peer_writes), std::out_of_range);
  CHECK_THROWS_AS(region.set_access(0, unit, {{device_ref{2}, reads}}), unsupported);
  CHECK_THROWS_AS(region.set_access({{device_ref{9}, reads}}), std::invalid_argument);
  CHECK_NOTHROW(region.set_access(3 * unit, 0, peer_writes));
  CHECK_THROWS_AS(static_cast<void>(region.rights_at(3 * unit)), std::invalid_argument);
  check_unchanged();
}

TEST_CASE_FIXTURE(
    five_chunks, "region: effective_access says what HIP says of each chunk, changed by whomever") {
  region.set_access(5 * unit, unit, peer_alone);
  set_access(advance(region.base(), unit), unit, {second_device, writes});
  const std::vector<chunk_access> found = region.effective_access(1, 6 * unit);
  REQUIRE(found.size() == 5);
  const std::array<access_right, 5> of_peer{reads, writes, reads, reads, reads};
  for (std::size_t index = 0; index < found.size(); ++index) {
    CAPTURE(index);
    CHECK(found[index].offset == five_chunks::present[index] * unit);
    CHECK(found[index].bytes == unit);
    CHECK(found[index].rights.entries().size() == 3);
    CHECK(found[index].rights.find(first_device) == (index == 3 ? no_right : writes));
    CHECK(found[index].rights.find(second_device) == of_peer[index]);
    CHECK(found[index].rights.find(device_ref{2}) == no_right);
  }
  CHECK(region.effective_access(2 * unit, unit).size() == 1);
  CHECK(region.effective_access(3 * unit, 2 * unit).empty());
  CHECK_THROWS_AS(static_cast<void>(region.effective_access(16 * unit, 1)), std::out_of_range);
}

TEST_CASE("region: events name each device whose right changed, and the bytes of a range") {
  five_chunks all;
  memory_event_subscription events{64};
  all.region.set_access(peer_reads);  // as it was
  all.region.set_access(peer_alone);
  all.region.set_access(all.unit, 2 * all.unit, {});
  std::vector<memory_event> seen;
  for (const memory_event& one : events.read())
    if (one.object == all.region.event_id()) seen.push_back(one);
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].kind == memory_event_kind::revoke);
  CHECK(seen[0].peer == first_device.ordinal());
  CHECK(seen[0].bytes == 0);
  // Chunks elsewhere keep the peer's right.
  CHECK(seen[1].kind == memory_event_kind::revoke);
  CHECK(seen[1].peer == second_device.ordinal());
  CHECK(seen[2].kind == memory_event_kind::grant);
  CHECK(seen[2].peer == first_device.ordinal());
  for (const std::size_t index : {1U, 2U}) {
    CHECK(seen[index].bytes == 2 * all.unit);
    CHECK(seen[index].address == reinterpret_cast<std::uintptr_t>(all.region.base()) + all.unit);
  }
}

TEST_CASE_FIXTURE(five_chunks, "region: a moved-from region refuses rights") {
  const hipvmm::region taken = std::move(region);
  CHECK_THROWS_AS(region.set_access(peer_reads), std::invalid_argument);
  CHECK_THROWS_AS(region.set_access(0, 0, peer_reads), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(region.effective_access(0, 0)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(region.rights_at(0)), std::invalid_argument);
}

TEST_CASE("region: trim waits for work of a device that has a right to one chunk only") {
  five_chunks all{access_list{}};
  all.region.set_access(6 * all.unit, all.unit, peer_writes);
  blocked_stream of_peer{second_device};
  CHECK(all.region.trim(6 * all.unit, of_peer) == all.unit);
  CHECK_FALSE(of_peer.is_done());
  CHECK(get_access(advance(all.region.base(), 6 * all.unit), second_device) == writes);
  of_peer.release();
  drain_retired_memory();
  CHECK_THROWS_AS(
      static_cast<void>(get_access(advance(all.region.base(), 6 * all.unit), second_device)),
      hip_error);
}

TEST_CASE("region: rights are set while a stream is captured") {
  HIPVMM_SKIP_UNDER(unmap_waits);  // rocm-7.14: a grant waits, which captures forbid
  five_chunks all;
  const stream captured;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  all.region.set_access(peer_writes);
  all.region.set_access(0, all.unit, peer_alone);
  end_capture(captured.get());
  CHECK(all.has(0, no_right, reads));
  CHECK(all.has(1, writes, writes));
}

TEST_CASE("region: set_access that fails leaves every right as it was") {
  fault_sweep{"set_access"}.run(
      make_five, [](auto& all) { all.region.set_access(peer_alone); }, five_unchanged,
      [](auto& all) { all.check_all(no_right, reads); });
}

TEST_CASE("region: set_access of a range that fails leaves every right as it was") {
  fault_sweep{"set_access of a range"}.run(
      make_five, [](auto& all) { all.region.set_access(all.unit, 2 * all.unit, peer_alone); },
      five_unchanged,
      [](auto& all) {
        CHECK(all.has(0, writes, reads));
        CHECK(all.has(1, no_right, reads));
        CHECK(all.has(2, no_right, reads));
      });
}

/// Three kinds of rights, a chunk at two addresses, and one that is ready.
constexpr auto make_mixed = [] {
  auto all = make_five();
  all->region.set_access(0, all->unit, peer_alone);
  all->region.set_access(all->unit, all->unit, peer_writes);
  all->region.move_chunk(6 * all->unit, 7 * all->unit);
  all->region.set_access(7 * all->unit, all->unit, {});
  return all;
};
const auto check_mixed = [](auto& all) {
  CHECK(all.has(0, no_right, reads));
  CHECK(all.has(1, writes, writes));
  CHECK(all.has(2, writes, reads));
  CHECK(all.has(5, writes, reads));
  CHECK(all.has(7, writes, no_right));
  CHECK(get_access(advance(all.region.base(), 6 * all.unit), second_device) == no_right);
};

TEST_CASE("region: set_access that fails leaves chunks their own rights") {
  fault_sweep{"set_access amid own rights"}.run(
      make_mixed, [](auto& all) { all.region.set_access(peer_writes); }, check_mixed,
      [](auto& all) {
        for (const std::size_t index : {0, 1, 2, 5, 7}) CHECK(all.has(index, writes, writes));
      });
}

TEST_CASE("region: grant that fails leaves chunks their own rights") {
  fault_sweep{"grant amid own rights"}.run(
      make_mixed, [](auto& all) { all.region.grant(second_device, writes); }, check_mixed,
      [](auto& all) {
        CHECK(all.has(0, no_right, writes));
        for (const std::size_t index : {1, 2, 5, 7}) CHECK(all.has(index, writes, writes));
      });
}

constexpr auto make_moved = [] {
  auto all = make_mixed();
  all->region.end_move(6 * all->unit);
  return all;
};

constexpr auto check_moved = [](auto& all) {
  CHECK(all.has(0, no_right, reads));
  CHECK(all.has(1, writes, writes));
  CHECK(all.has(7, writes, no_right));
};

TEST_CASE("region: extend that fails leaves chunks their own rights") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  fault_sweep{"extend amid own rights"}.run(
      make_moved, [](auto& all) { all.region.extend(32 * all.unit, 9 * all.unit); }, check_moved,
      [](auto& all) {
        check_moved(all);
        CHECK(all.has(6, writes, reads));
      });
}

TEST_CASE("region: decommit that fails leaves chunks their own rights") {
  fault_sweep{"decommit amid own rights"}.run(
      make_moved, [](auto& all) { all.region.decommit(0, 16 * all.unit); }, check_moved,
      [](auto& all) { CHECK(all.region.committed_bytes() == 0); });
}

TEST_CASE("region: effective_access that fails changes nothing") {
  fault_sweep{"effective_access"}.run(
      make_five,
      [](auto& all) { CHECK(all.region.effective_access(0, 16 * all.unit).size() == 5); },
      five_unchanged, five_unchanged);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
