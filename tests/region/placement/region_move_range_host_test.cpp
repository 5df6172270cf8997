// SPDX-License-Identifier: MIT
// move_range while HIP calls fail, if memory runs out, and beside other work.
#include <hipvmm/runtime/event.hpp>
#include "region/region_test.hpp"
#include "support/device_use.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

struct three_chunks {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  chunk_cache cache;
  hipvmm::region region{first_device, 16 * unit, options()};

  explicit three_chunks(std::size_t chunks = 3) {
    region.grant(second_device);
    for (std::size_t i = 0; i < chunks; ++i) region.commit(i * unit, unit);
    write_tags(region, 0, chunks, 1, stream);
  }
  [[nodiscard]] region_options options() {
    region_options result{.cache = &cache};
    // Else base() may change, which this is not about.
    result.when_empty = empty_policy::keeps_addresses;
    return result;
  }
};

/// Compares the rights of all devices to one granule with those of the region; copies it by each
/// that has one.
void check_granted(const region& subject, std::size_t index) {
  CAPTURE(index);
  const void* const at = advance(subject.base(), index * granule());
  for (const device_ref each : {first_device, second_device, device_ref{2}}) {
    CAPTURE(each.ordinal());
    CHECK(get_access(at, each) == subject.access(each));
    if (subject.access(each) == access_right::none) continue;
    const stream its{each};
    CHECK_NOTHROW(read_bytes(its, at, 1));
  }
}

HIPVMM_TEST_CASE_IN("region: rights of what moves are as granted at each address and failure",
                    with_small_chunks()) {
  using access_right::none, access_right::read, access_right::read_write;
  const auto made_with = [](access_right owner, access_right peer) {
    auto made = std::make_unique<three_chunks>();
    made->region.grant(second_device, peer);
    made->region.grant(first_device, owner);
    return made;
  };
  const auto check_chunks = [](auto& subject) {
    for (const chunk_view& each : subject.region.chunks())
      check_granted(subject.region, each.offset / subject.unit);
  };
  const bool keeps_read = capability_of(first_device).has(trait::keeps_read_only);
  for (const auto& [owner, peer] : {std::pair{read_write, read_write}, std::pair{read, read_write},
                                    std::pair{read_write, read}, std::pair{read_write, none}}) {
    if (!keeps_read && (owner == read || peer == read)) continue;
    CAPTURE(owner);
    CAPTURE(peer);
    const auto make = [&, owner = owner, peer = peer] { return made_with(owner, peer); };
    if (peer == read_write)
      fault_sweep{"move_range"}.run(
          make,
          [](auto& subject) {
            subject.region.move_range(0, 2 * subject.unit, second_device, subject.stream);
          },
          check_chunks, check_chunks);
    if (!make()->region.can_move_chunks()) continue;
    fault_sweep{"move_chunk"}.run(
        make, [](auto& subject) { subject.region.move_chunk(0, 3 * subject.unit); }, check_chunks,
        [&](auto& subject) {
          for (std::size_t i = 0; i < 4; ++i) check_granted(subject.region, i);
          subject.region.end_move(0);
          check_chunks(subject);
        });
    fault_sweep{"end_move"}.run(
        [&] {
          auto made = make();
          made->region.move_chunk(0, 3 * made->unit);
          return made;
        },
        [](auto& subject) { subject.region.end_move(0); },
        [](auto& subject) {
          for (std::size_t i = 0; i < 4; ++i) check_granted(subject.region, i);
        },
        check_chunks);
  }
}

HIPVMM_TEST_CASE_IN("region: move_range that fails leaves every byte where it was",
                    with_small_chunks()) {
  // As many as one call unmaps.
  static constexpr std::size_t chunks = 5;
  fault_sweep{"move_range"}.run(
      [] { return std::make_unique<three_chunks>(chunks); },
      [](auto& subject) {
        subject.region.move_range(0, chunks * subject.unit, second_device, subject.stream);
      },
      [](auto& subject) {
        // A rollback that HIP refuses loses a chunk, and says so.
        if (subject.region.chunk_count() != chunks) return;
        for (const chunk_view& each : subject.region.chunks()) {
          CHECK(each.device == first_device);
          CHECK(get_access(each.address, first_device) == access_right::read_write);
          CHECK(get_access(each.address, second_device) == access_right::read_write);
        }
        check_tags(subject.region, 0, chunks, 1, subject.stream);
        CHECK(subject.region.rights().other_owners().empty());
      },
      [](auto& subject) {
        REQUIRE(subject.region.chunk_count() == chunks);
        for (const chunk_view& each : subject.region.chunks()) CHECK(each.device == second_device);
        check_tags(subject.region, 0, chunks, 1, subject.stream);
      });
}

TEST_CASE_FIXTURE(three_chunks,
                  "region: move_range to a full device says which, and moves nothing") {
  chunk_cache::shared().trim();
  drain_retired_memory();
  const physical_chunk most{second_device, free_memory_at_rest(second_device) - 2 * unit};
  const auto error =
      thrown_by<out_of_memory>([&] { region.move_range(0, 3 * unit, second_device, stream); });
  CHECK(error.device() == 1);
  CHECK(std::string{error.what()}.find("moved none") != std::string::npos);
  check_tags(region, 0, 3, 1, stream);
  CHECK(region.move_range(0, 2 * unit, second_device, stream) == 2 * unit);
  check_tags(region, 0, 3, 1, stream);
}

// More than one call may name, of sizes that some releases grant only all together.
HIPVMM_TEST_CASE_IN(
    "region: move_range moves many chunks of two sizes, which the old device only reads",
    with_small_chunks()) {
  const std::size_t unit = granule();
  const stream stream;
  region subject{first_device, 128 * unit};
  subject.grant(second_device);
  std::size_t end = 0;
  for (std::size_t i = 0; i < 70; ++i) {
    const std::size_t chunk = (1 + i % 2) * unit;
    subject.commit(end, chunk);
    end += chunk;
  }
  write_tags(subject, 0, end / unit, 1, stream);
  subject.grant(first_device, access_right::read);
  CHECK(subject.move_range(0, end, second_device, stream) == end);
  CHECK(subject.chunk_count() == 70);
  for (const chunk_view& each : subject.chunks()) CHECK(each.device == second_device);
  check_tags(subject, 0, end / unit, 1, stream);
}

TEST_CASE_FIXTURE(three_chunks, "region: move_range waits for the work in its stream") {
  const hipvmm::stream writer{second_device};
  fill_async(writer, region.base(), 0x42, 3 * unit);
  event written{second_device};
  written.record(writer);
  static_cast<stream_ref>(stream).wait(written);
  region.move_range(0, 3 * unit, second_device, stream);
  CHECK(read_bytes(stream, region.base(), 3 * unit) == byte_vector(3 * unit, 0x42));
}

// If memory returns only with its addresses, which are then freed and reserved again.
HIPVMM_TEST_CASE_IN("region: move_range leaves the old address of a chunk that moves",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4"}) {
  const std::size_t unit = granule();
  const hipvmm::stream stream;
  hipvmm::region moving{first_device, 16 * unit};
  moving.grant(second_device);
  for (std::size_t i = 0; i < 2; ++i) moving.commit(i * unit, unit);
  write_tags(moving, 0, 2, 1, stream);
  REQUIRE(moving.can_move_chunks());
  const void* const base = moving.base();
  moving.move_chunk(0, 8 * unit);
  moving.move_range(unit, unit, second_device, stream);
  CHECK(moving.base() == base);
  moving.grant(second_device, access_right::read);
  moving.end_move(0);
  check_tags(moving, 1, 2, 1, stream);
}

TEST_CASE("region: move_range waits beside a capture of another thread, or moves nothing") {
  three_chunks subject;
  const hipvmm::stream captured{first_device};
  std::promise<void> has_begun;
  std::promise<void> may_end;
  std::thread capturing{[&] {
    const scoped_device here{first_device};
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
    has_begun.set_value();
    may_end.get_future().wait();
    static_cast<void>(end_capture_if_kept(captured.get()));
  }};
  has_begun.get_future().wait();
  try {
    subject.region.move_range(0, 3 * subject.unit, second_device, subject.stream);
  } catch (const hip_error&) {
    // Refused, as HIP refuses such waits.
  }
  may_end.set_value();
  capturing.join();
  check_tags(subject.region, 0, 3, 1, subject.stream);
}

// As if a capture of another thread began with the copies, and lasted.
// They stay for good, so no leak is reported.
HIPVMM_TEST_CASE_IN("region: copies that cannot be awaited keep their chunks and mappings",
                    {"ASAN_OPTIONS=detect_leaks=0"}) {
  three_chunks subject;
  drain_retired_memory();
  const hipvmm_host_counters before = live_objects();
  const call_counter copies{"hipMemcpyAsync"};
  // All waits but the first, which is made before the copies.
  std::string refusals =
      "hipDeviceSynchronize error=hipErrorStreamCaptureUnsupported; "
      "hipFree error=hipErrorStreamCaptureUnsupported";
  for (int nth = 2; nth < 9; ++nth)
    refusals += "; hipStreamSynchronize nth=" + std::to_string(nth) +
                " error=hipErrorStreamCaptureUnsupported";
  {
    const planned_faults faults{refusals};
    CHECK_THROWS_AS(subject.region.move_range(0, 3 * subject.unit, second_device, subject.stream),
                    hip_error);
  }
  // Lost, because the copies may be under way.
  CHECK(copies.count() != 0);
  CHECK(live_objects().mappings - before.mappings == copies.count());
  CHECK(live_objects().handles - before.handles == copies.count());
  check_tags(subject.region, 0, 3, 1, subject.stream);
  CHECK(subject.region.chunks().front().device == first_device);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
