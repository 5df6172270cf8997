// SPDX-License-Identifier: MIT
#include "region/device_work.hpp"
#include "region/region_test.hpp"
#include "runtime/device_gate.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// A region of four granules in a chunk each, in use by a stream that stands still.
struct used_region {
  const std::size_t unit = granule();
  hipvmm::stream writer;
  hipvmm::region region{first_device, 16 * unit};
  blocked_stream stream{first_device};

  used_region() {
    for (std::size_t index = 0; index < 4; ++index) region.commit(index * unit, unit);
    write_tags(region, 0, 4, 1, writer);
    // A few bytes of each chunk that cases trim.
    for (std::size_t index = 1; index < 4; ++index)
      fill_async(stream, advance(region.base(), index * unit), 7, 64);
  }
  void check_backed(std::size_t granules) const {
    CHECK(region.committed_bytes() == granules * unit);
    CHECK(region.committed_from(0) == granules * unit);
    CHECK(region.chunk_count() == granules);
    CHECK(has_tag(region, 0, 1, writer));
  }
};

/// While this lives, hipDeviceSynchronize waits for devices, even if another call could do so.
class waits_by_synchronize {
 public:
  waits_by_synchronize() { detail::set_device_wait_rules({true, false}); }
  ~waits_by_synchronize() {
    const capability known = capability_of(first_device);
    detail::set_device_wait_rules(
        {known.has(trait::counts_ending_streams), known.has(trait::free_waits)});
  }
  waits_by_synchronize& operator=(waits_by_synchronize&&) = delete;
};

/// Whether there are so many calls soon; seconds pass only if there are not.
bool comes_to(const call_counter& calls, std::uint64_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  while (calls.count() < count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return calls.count() >= count;
}

using used_ptr = std::unique_ptr<used_region>;
constexpr auto make_used = [] {
  // The threads begin here: a fault of their first call would stay with them for all later cases.
  static const bool begun = [] {
    used_region first;
    first.region.trim(first.unit, first.stream);
    first.region.retire();
    first.stream.release();
    drain_retired_memory();
    return true;
  }();
  static_cast<void>(begun);
  return std::make_unique<used_region>();
};
constexpr auto make_trimmed = [] {
  auto made = make_used();
  made->region.trim(made->unit, made->stream);
  return made;
};

// By name, because the thread's calls come between those of the caller.
TEST_CASE("retirement: trim of a region in use that fails leaves the region as it was") {
  for (const std::string call :
       {"hipStreamIsCapturing", "hipStreamQuery", "hipEventCreateWithFlags", "hipEventRecord"}) {
    CAPTURE(call);
    drain_retired_memory();
    const used_ptr used = make_used();
    const hipvmm_host_counters before = live_objects();
    const planned_fault fault{call.c_str(), 1, hipErrorUnknown};
    CHECK_THROWS_AS(used->region.trim(used->unit, used->stream), hip_error);
    CHECK(fault.struck());
    CHECK(retired_memory().waiting == 0);
    CHECK(live_objects() == before);
    used->check_backed(4);
    used->region.trim(used->unit, used->stream);
    used->check_backed(1);
  }
}

// The faults strike in the caller or in the thread that releases.
TEST_CASE("retirement: a failed growth into retired bytes leaves the region as it was") {
  fault_sweep{"commit", after_failure::capacity}.run(
      make_trimmed,
      [](auto& subject) {
        subject.stream.release();
        subject.region.commit(0, 2 * subject.unit);
      },
      [](auto& subject) { subject.check_backed(1); },
      [](auto& subject) { subject.check_backed(2); });
}

TEST_CASE("retirement: a failure in the thread is reported, and the memory released nevertheless") {
  for (const std::string call : {"hipEventQuery", "hipMemUnmap", "hipEventDestroy"}) {
    CAPTURE(call);
    const hipvmm_host_counters before = live_objects();
    const error_recorder reported;
    {
      const used_ptr trimmed = make_trimmed();
      const planned_fault fault{call.c_str(), 1, hipErrorUnknown};
      trimmed->stream.release();
      drain_retired_memory();
      CHECK(fault.struck());
    }
    CHECK(retired_memory().waiting == 0);
    REQUIRE(reported.count() >= 1);
    CHECK(reported.errors().front().call == call);
    if (call != "hipEventDestroy") CHECK(live_objects() == before);
  }
}

TEST_CASE("retirement: a device that cannot be waited for is reported") {
  const hipvmm_host_counters before = live_objects();
  const error_recorder reported;
  {
    const used_ptr used = make_used();
    used->stream.release();
    static_cast<stream_ref>(used->stream).synchronize();
    const waits_by_synchronize waits;
    const planned_fault fault{"hipDeviceSynchronize", 1, hipErrorUnknown};
    used->region.retire();
    drain_retired_memory();
    CHECK(fault.struck());
  }
  CHECK(reported.count() == 1);
  CHECK(live_objects() == before);
}

TEST_CASE("retirement: a wait that fails does not count as a wait") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  const hipvmm_host_counters before = live_objects();
  const error_recorder reported;
  {
    const used_ptr used = make_used();
    const waits_by_synchronize waits;
    const std::size_t mapped = live_objects().mappings;
    const call_counter tries{"hipDeviceSynchronize"};
    REQUIRE(hipvmm_host_set_faults("hipDeviceSynchronize nth=1 error=hipErrorUnknown; "
                                   "hipDeviceSynchronize nth=2 error=hipErrorUnknown; "
                                   "hipDeviceSynchronize nth=3 error=hipErrorUnknown") == nullptr);
    used->region.retire();
    CHECK(comes_to(tries, 4));
    // The fourth waits for the fill, which needs the memory.
    CHECK(live_objects().mappings == mapped);
    CHECK(retired_memory().waiting == 1);
    used->stream.release();
    drain_retired_memory();
    hipvmm_host_set_faults(nullptr);
  }
  CHECK(reported.count() == 1);
  CHECK(live_objects() == before);
}

TEST_CASE("retirement: an event that cannot be asked is reported once") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  const hipvmm_host_counters before = live_objects();
  const error_recorder reported;
  {
    const used_ptr trimmed = make_trimmed();
    const waits_by_synchronize waits;
    const std::size_t mapped = live_objects().mappings;
    const call_counter tries{"hipDeviceSynchronize"};
    REQUIRE(hipvmm_host_set_faults("hipEventQuery error=hipErrorUnknown; "
                                   "hipDeviceSynchronize error=hipErrorUnknown") == nullptr);
    CHECK(comes_to(tries, 3));
    CHECK(live_objects().mappings == mapped);
    CHECK_THROWS_AS(drain_retired_memory(), hip_error);
    CHECK(live_objects().mappings == mapped);
    hipvmm_host_set_faults(nullptr);
    trimmed->stream.release();
    drain_retired_memory();
  }
  CHECK(reported.count() == 1);
  CHECK(live_objects() == before);
}

TEST_CASE("retirement: faults in retire() reach no caller") {
  fault_sweep{"retire"}.run(
      make_used,
      [](auto& subject) {
        subject.stream.release();
        static_cast<stream_ref>(subject.stream).synchronize();
        subject.region.retire();
        drain_retired_memory();
      },
      [](auto&) {},
      [](auto& subject) {
        CHECK(subject.region.base() == nullptr);
        CHECK(retired_memory().waiting == 0);
      });
}

TEST_CASE("retirement: a refusal that is over does not count against waits for other devices") {
  using namespace std::chrono_literals;
  HIPVMM_SKIP_UNDER(unmap_waits);
  const waits_by_synchronize waits;
  constexpr device_ref peer{1};
  region first{first_device, 4 * granule()};
  region second{first_device, 4 * granule()};
  second.grant(peer);
  for (region* each : {&first, &second}) each->commit(0, granule());
  blocked_stream first_user{first_device};
  blocked_stream second_user{peer};
  fill_async(first_user, first.base(), 1, granule());
  fill_async(second_user, second.base(), 1, granule());
  REQUIRE(hipvmm_host_set_faults("hipDeviceSynchronize error=hipErrorStreamCaptureUnsupported") ==
          nullptr);
  first.retire();
  second.retire();
  const call_counter refusals{"hipDeviceSynchronize"};
  while (refusals.count() < 3) std::this_thread::yield();
  hipvmm_host_set_faults(nullptr);
  std::thread draining{[] { CHECK_NOTHROW(drain_retired_memory()); }};
  // Longer than captures may forbid a wait.
  const auto end = std::chrono::steady_clock::now() + 2 * detail::capture_patience;
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  first_user.release();
  REQUIRE(comes_true([] { return retired_memory().waiting <= 1; }));
  second_user.release();
  draining.join();
  CHECK(retired_memory().waiting == 0);
}

TEST_CASE("retirement: a wait does not cover memory that is retired during it") {
  using namespace std::chrono_literals;
  HIPVMM_SKIP_UNDER(unmap_waits);
  const waits_by_synchronize waits;
  region first{first_device, 4 * granule()};
  region second{first_device, 4 * granule()};
  for (region* each : {&first, &second}) each->commit(0, granule());
  blocked_stream first_user{first_device};
  fill_async(first_user, first.base(), 1, granule());
  const call_counter begun{"hipDeviceSynchronize"};
  first.retire();
  while (begun.count() == 0) std::this_thread::yield();
  static_cast<void>(happens([] { return false; }));
  blocked_stream second_user{first_device};
  fill_async(second_user, second.base(), 1, granule());
  const void* const base = second.base();
  second.retire();
  first_user.release();
  const auto end = std::chrono::steady_clock::now() + 200ms;
  while (retired_memory().waiting > 1 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  CHECK_NOTHROW(static_cast<void>(get_access(base, first_device)));
  CHECK_FALSE(second_user.is_done());
  second_user.release();
  drain_retired_memory();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
