// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "runtime/runtime_rules.hpp"
#include "support/host/host_provider.hpp"

// Calls for chunks, and copies of others, at the same time.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Five chunks, each of which is waited for by itself, beside holes.
struct large_chunks {
  const std::size_t count = 5;
  const std::size_t chunk = align_up(8 * MiB, granule());
  memory_tag tag;
  hipvmm::stream stream{first_device};
  region chunks{first_device, 2 * count* chunk, tagged(tag)};

  large_chunks() {
    for (std::size_t i = 0; i < count; ++i) {
      chunks.commit(2 * i * chunk, chunk);
      write_tag(chunks, 2 * i * chunk / granule(), 1, stream);
    }
  }
  [[nodiscard]] bool has_contents() const {
    for (std::size_t i = 0; i < count; ++i)
      if (!has_tag(chunks, 2 * i * chunk / granule(), 1, stream)) return false;
    return true;
  }
  /// suspend() fails at that call, when so many chunks have been unmapped.
  void check_overlap(const suspend_options& options, const char* function, std::uint64_t nth,
                     std::uint64_t unmapped) const {
    const call_counter unmaps{"hipMemUnmap"};
    const call_counter maps{"hipMemMap"};
    {
      const planned_fault fault{function, nth, hipErrorUnknown};
      CHECK_THROWS_AS(suspend(tag, keep::contents, options), hip_error);
    }
    CHECK(unmaps.count() == unmapped);
    CHECK(maps.count() == unmapped);
    CHECK_FALSE(tag.is_asleep());
    CHECK(tag.statistics().bytes_on_host == 0);
    CHECK(tag.statistics().bytes_on_disk == 0);
    CHECK(chunks.chunk_count() == count);
    CHECK(has_contents());
    CHECK(suspend(tag, keep::contents, options) == count * chunk);
    // All are mapped while the first copies have not ended.
    const call_counter again{"hipMemMap"};
    held_streams held;
    std::thread other{[&] { resume(tag); }};
    CHECK(comes_true([&] { return again.count() == count; }));
    CHECK(tag.phase() == tag_phase::waking);
    held.release();
    other.join();
    CHECK(has_contents());
  }
};

TEST_CASE_FIXTURE(large_chunks, "sleep: suspend unmaps a chunk while the next is still copied") {
  if (!detail::rules_of_runtime().events_cover_copies) return;
  check_overlap({}, "hipEventSynchronize", 3, 2);
}

TEST_CASE_FIXTURE(large_chunks, "sleep: no events are made where they pass before copies") {
  if (detail::rules_of_runtime().events_cover_copies) return;
  const call_counter records{"hipEventRecord"};
  suspend(tag, keep::contents, stream);
  CHECK(records.count() == 0);
  resume(tag);
  CHECK(has_contents());
}

TEST_CASE_FIXTURE(large_chunks, "sleep: chunks come and go while pageable memory is copied") {
  if (!detail::rules_of_runtime().events_cover_copies) return;
  check_overlap({sleep_storage::pageable, {}, {}}, "hipEventSynchronize", 3, 2);
}

TEST_CASE_FIXTURE(large_chunks, "sleep: chunks come and go while files are written and read") {
  // Of the two buffers one is written when the next but one is to be copied.
  check_overlap({sleep_storage::file, {}, "/dev/shm"}, "hipMemcpyAsync", 4, 1);
}

TEST_CASE("sleep: the streams of copies are kept with the pinned memory") {
  const memory_tag tag;
  const hipvmm::stream stream{first_device};
  const std::uint64_t before = live_objects().streams;
  {
    region chunks{first_device, granule(), tagged(tag)};
    chunks.commit(0, granule());
    write_tag(chunks, 0, 1, stream);
    const auto cycle = [&](sleep_storage storage) {
      suspend(tag, keep::contents, stream, storage);
      resume(tag);
      CHECK(has_tag(chunks, 0, 1, stream));
    };
    const call_counter makes{"hipStreamCreateWithFlags"};
    cycle(sleep_storage::pinned);
    const std::uint64_t fresh = makes.count();
    CHECK(live_objects().streams == before);
    cycle(sleep_storage::pinned_kept);
    const std::uint64_t kept = live_objects().streams;
    CHECK(kept == before + 1);
    // Under ROCm 6.4 others are made too.
    const call_counter again{"hipStreamCreateWithFlags"};
    cycle(sleep_storage::pinned_kept);
    CHECK(again.count() + 2 == fresh);
    CHECK(live_objects().streams == kept);
    cycle(sleep_storage::pinned);
    CHECK(live_objects().streams == before);
    cycle(sleep_storage::pinned_kept);
    suspend(tag, keep::nothing, stream);
    CHECK(live_objects().streams == before);
    resume(tag);
    write_tag(chunks, 0, 1, stream);
    cycle(sleep_storage::pinned_kept);
    {
      // They may have failed themselves.
      const planned_fault fault{"hipStreamSynchronize", 2, hipErrorUnknown};
      CHECK_THROWS_AS(suspend(tag, keep::contents, stream, sleep_storage::pinned_kept), hip_error);
    }
    CHECK(live_objects().streams == before);
    cycle(sleep_storage::pinned_kept);
    suspend(tag, keep::contents, stream, sleep_storage::pinned_kept);
    {
      const planned_fault fault{"hipMemcpyAsync", 1, hipErrorUnknown};
      CHECK_THROWS_AS(resume(tag), hip_error);
    }
    CHECK(live_objects().streams == before);
    resume(tag);
  }
  // The tag may outlive HIP.
  CHECK(live_objects().streams == before);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
