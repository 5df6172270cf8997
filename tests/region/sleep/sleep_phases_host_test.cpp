// SPDX-License-Identifier: MIT
#include <sys/resource.h>

#include <filesystem>
#include <system_error>

#include <hipvmm/core/observers/memory_events.hpp>
#include "region/region_test.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/host/host_provider.hpp"
#include "support/process/forked_child.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/region/held_memory.hpp"
#include "support/waiting_thread.hpp"

// Queries of a tag, its events, and copies that no call can wait for.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(sleeping_regions, "sleep: phase and statistics answer while suspend waits") {
  held_streams held;
  const auto byte = pattern(1, 1);
  copy_async(stream, advance(base, unit / 2), byte.data(), 1);
  CHECK(tag.phase() == tag_phase::awake);
  std::thread other{[&] { suspend(tag, keep::contents, stream); }};
  CHECK(comes_true([&] { return tag.phase() == tag_phase::falling_asleep; }));
  CHECK_FALSE(tag.is_asleep());
  CHECK(tag.statistics().regions == 2);
  CHECK(tag.statistics().bytes_asleep == 0);
  held.release();
  other.join();
  CHECK(tag.phase() == tag_phase::asleep);
  CHECK(tag.statistics().bytes_asleep == 4 * unit);
  resume(tag);
  CHECK(tag.phase() == tag_phase::awake);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: pinned memory is kept for the next time where asked") {
  suspend(tag, keep::contents, stream, sleep_storage::pinned_kept);
  resume(tag);
  CHECK(tag.statistics().bytes_on_host == 4 * unit);
  const call_counter pins{"hipHostMalloc"};
  const call_counter frees{"hipHostFree"};
  for (int i = 0; i < 2; ++i) {
    suspend(tag, keep::contents, stream, sleep_storage::pinned_kept);
    CHECK(resume(tag) == 4 * unit);
    CHECK(has_contents());
  }
  CHECK(pins.count() == 0);
  CHECK(frees.count() == 0);
  // Too small for one region, which has grown.
  second.commit(unit, unit);
  write_tag(second, 1, 3, stream);
  suspend(tag, keep::contents, stream, sleep_storage::pinned_kept);
  CHECK(pins.count() == 1);
  resume(tag);
  CHECK(has_contents());
  CHECK(has_tag(second, 1, 3, stream));
  // The kept memory serves one more time, and goes.
  const std::uint64_t freed = frees.count();
  suspend(tag, keep::contents, stream, sleep_storage::pinned);
  CHECK(pins.count() == 1);
  CHECK(frees.count() == freed);
  resume(tag);
  CHECK(has_contents());
  CHECK(tag.statistics().bytes_on_host == 0);
  suspend(tag, keep::contents, stream, sleep_storage::pinned_kept);
  resume(tag);
  suspend(tag, keep::nothing, stream);
  CHECK(tag.statistics().bytes_on_host == 0);
  resume(tag);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: a suspend that fails keeps no new memory of the host") {
  {
    const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
    CHECK_THROWS_AS(suspend(tag, keep::contents, stream, sleep_storage::pinned_kept), hip_error);
  }
  check_awake();
  suspend(tag, keep::contents, stream, sleep_storage::pinned_kept);
  resume(tag);
  {
    const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
    CHECK_THROWS_AS(suspend(tag, keep::contents, stream, sleep_storage::pinned_kept), hip_error);
  }
  CHECK(tag.statistics().bytes_on_host == 4 * unit);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: contents come back from a file that has no name") {
  const temporary_folder folder;
  suspend_options options{.storage = sleep_storage::file, .stream = stream};
  CHECK_THROWS_AS(suspend(tag, keep::contents, options), std::invalid_argument);
  check_awake();
  options.folder = (folder.path() / "missing").string();
  CHECK_THROWS_AS(suspend(tag, keep::contents, options), std::system_error);
  check_awake();
  options.folder = folder.path().string();
  CHECK(suspend(tag, keep::contents, options) == 4 * unit);
  check_asleep();
  CHECK(tag.statistics().bytes_on_host == 0);
  CHECK(tag.statistics().bytes_on_disk == 4 * unit);
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(resume(tag) == 4 * unit);
  CHECK(tag.statistics().bytes_on_disk == 0);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions,
                  "sleep: a file that may not be so long leaves all awake, and says so") {
  suspend_options options{.storage = sleep_storage::file};
  const temporary_folder folder;
  options.folder = folder.path().string();
  // A limit of the process, whose signal would end it.
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 2 * unit;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string text =
      text_thrown_by<std::system_error>([&] { suspend(tag, keep::contents, options); });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(text.find("the process may write files of at most") != std::string::npos);
  check_awake();
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("sleep: what holds nothing reports no event") {
  const memory_tag tag;
  const region empty{first_device, 4 * granule(), tagged(tag)};
  std::vector<memory_event> seen;
  {
    const memory_event_subscription all{[&](const memory_event& event) { seen.push_back(event); }};
    suspend(tag, keep::contents);
    resume(tag);
  }
  CHECK(seen.empty());
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: a resume that fails waits for no device") {
  suspend(tag, keep::contents);
  const planned_fault fault{"hipMemcpyAsync", 2, hipErrorUnknown};
  const calls_of waits{device_waiting_functions};
  CHECK_THROWS_AS(resume(tag), hip_error);
  CHECK(waits.count() == 0);
  check_asleep();
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions,
                  "sleep: copies that HIP refuses to wait for keep their memory mapped") {
  suspend(tag, keep::contents);
  const call_counter unmaps{"hipMemUnmap"};
  {
    error_recorder reported;
    const planned_faults none{
        "hipStreamSynchronize error=hipErrorUnknown;hipDeviceSynchronize error=hipErrorUnknown;"
        "hipFree error=hipErrorUnknown"};
    CHECK_THROWS_AS(resume(tag), hip_error);
    check_asleep();
    CHECK(unmaps.count() == 0);
  }
  // At addresses at which that memory is mapped until it is released.
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions,
                  "sleep: copies that HIP refuses to wait for keep their memory of the host") {
  const auto before = live_objects().host_allocations;
  {
    const planned_faults none{"hipStreamSynchronize error=hipErrorUnknown"};
    CHECK_THROWS_AS(suspend(tag, keep::contents), hip_error);
  }
  CHECK(live_objects().host_allocations == before + 2);  // of both regions, for good
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: retired memory is released before suspend returns") {
  blocked_stream work{first_device};
  first.decommit(4 * unit, unit, work);
  opened_by_wait opener{[&] { work.release(); }};
  suspend(tag, keep::nothing, stream);
  CHECK(retired_memory().waiting_bytes == 0);
  CHECK(opener.was_waited_for());
  resume(tag);
}

TEST_CASE("sleep: addresses that HIP does not free are freed after the next failure") {
  const assumed_capability assumed{kept_memory};
  sleeping_regions subject;
  {
    error_recorder reported;
    const planned_fault fault{"hipMemAddressFree", 1, hipErrorInvalidValue};
    suspend(subject.tag, keep::contents);
    CHECK(reported.count() != 0);
  }
  const call_counter frees{"hipMemAddressFree"};
  {
    const planned_fault fault{"hipMemCreate", 1, hipErrorUnknown};
    CHECK_THROWS_AS(resume(subject.tag), hip_error);
  }
  CHECK(frees.count() == 1);
  subject.check_asleep();
  resume(subject.tag);
  subject.check_awake();
}

TEST_CASE(
    "sleep: a child of fork() is refused amid its parent's suspend, and ends what carries a tag") {
  const memory_tag tag{"t"};
  std::optional<region> carrier{std::in_place, first_device, granule(), tagged(tag)};
  blocked_stream work{first_device};
  std::thread other{[&] { suspend(tag, keep::nothing, work); }};
  CHECK(comes_true([&] { return tag.phase() == tag_phase::falling_asleep; }));
  const auto is_refused = [](auto call) {
    try {
      call();
      return false;
    } catch (const unsupported&) {
      return true;
    }
  };
  CHECK(succeeds_in_forked_child([&] {
    const bool refused = is_refused([&] { suspend(tag, keep::nothing); }) &&
                         is_refused([&] { resume(tag); }) &&
                         is_refused([&] { prepare_suspend(tag, keep::contents); }) &&
                         is_refused([&] { static_cast<void>(tag.statistics()); });
    carrier.reset();
    return refused;
  }));
  work.release();
  other.join();
}

TEST_CASE("sleep: an error handler may use the tag, and end what carries it") {
  static std::optional<region> ended;
  static std::optional<memory_tag> woken;
  const assumed_capability assumed{kept_memory};
  sleeping_regions subject;
  ended.emplace(first_device, subject.unit, tagged(subject.tag));
  woken = subject.tag;
  error_handler const before = set_error_handler([](const char*, int, const char*) noexcept {
    ended.reset();
    resume(*woken);
  });
  {
    const planned_fault fault{"hipMemAddressFree", 1, hipErrorInvalidValue};
    suspend(subject.tag, keep::contents);
  }
  set_error_handler(before);
  woken.reset();
  CHECK_FALSE(ended);
  subject.check_awake();
}

TEST_CASE("sleep: spilled chunks wake on the host") {
  if (!capability_of(first_device).has(trait::host_chunks)) return;
  const std::size_t unit = granule();
  const memory_tag tag;
  region_options options = tagged(tag);
  options.placement = chunk_placement::spill(unit);
  region spilled{first_device, 8 * unit, options};
  const stream stream{first_device};
  for (std::size_t i = 0; i < 3; ++i) spilled.commit(i * unit, unit);
  write_tags(spilled, 0, 3, 1, stream);
  CHECK(suspend(tag, keep::contents) == 3 * unit);
  CHECK(resume(tag) == 3 * unit);
  check_tags(spilled, 0, 3, 1, stream);
  const auto chunks = spilled.chunks();
  REQUIRE(chunks.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(chunks[i].location.is_host() == (i != 0));
}

TEST_CASE("sleep: a chunk that was moved to the host wakes there") {
  if (!capability_of(first_device).has(trait::host_chunks)) return;
  sleeping_regions subject;
  subject.first.move_range(0, subject.unit, memory_location::host(), subject.stream);
  suspend(subject.tag, keep::contents);
  resume(subject.tag);
  subject.check_awake();
  CHECK(subject.first.chunks().front().location.is_host());
}

TEST_CASE("sleep: uncached chunks wake uncached") {
  if (!capability_of(first_device).has(trait::uncached_chunks)) return;
  const std::size_t unit = granule();
  const memory_tag tag;
  region_options options = tagged(tag);
  options.memory = chunk_memory::uncached;
  region flags{first_device, 4 * unit, options};
  const stream stream{first_device};
  flags.commit(0, unit);
  write_tags(flags, 0, 1, 1, stream);
  suspend(tag, keep::contents);
  resume(tag);
  check_tags(flags, 0, 1, 1, stream);
  CHECK(flags.chunks().front().memory == chunk_memory::uncached);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
