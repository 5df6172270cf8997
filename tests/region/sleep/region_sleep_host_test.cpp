// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include "region/region_test.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/host/host_test.hpp"
#include "support/region/held_memory.hpp"

// Sleep that fails, and sleep if memory returns with its addresses only.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Two regions of one chunk each: a sweep repeats everything for every call of HIP.
struct swept_regions {
  const std::size_t unit = granule();
  keep what;
  memory_tag tag;
  hipvmm::stream stream{first_device};
  region first{first_device, 2 * unit, tagged(tag)};
  region second{first_device, 2 * unit, tagged(tag)};
  void* const base = first.base();

  suspend_options options;

  explicit swept_regions(keep chosen, suspend_options chosen_options = {})
      : what{chosen}, options{std::move(chosen_options)} {
    first.commit(0, unit);
    second.commit(unit, unit);
    if (what == keep::contents) write_tag(second, 1, 1, stream);
  }
  void sleep() const { suspend(tag, what, options); }
  void check_awake() const {
    CHECK_FALSE(tag.is_asleep());
    CHECK(first.base() == base);
    CHECK(first.committed_from(0) == unit);
    CHECK(second.committed_from(unit) == unit);
    CHECK(tag.statistics().bytes_on_host == 0);
    if (what == keep::contents) CHECK(has_tag(second, 1, 1, stream));
  }
  /// Asleep, and after any failure all comes back.
  void check_sleeps_whole() const {
    CHECK(tag.is_asleep());
    CHECK(first.chunk_count() == 0);
    CHECK(second.chunk_count() == 0);
    CHECK(tag.statistics().bytes_asleep == 2 * unit);
    const tag_statistics now = tag.statistics();
    // Contents that a resume() has copied before it failed are on the device alone.
    CHECK(now.bytes_on_host + now.bytes_on_disk <= (what == keep::contents ? 2 * unit : 0));
    resume(tag);
    check_awake();
  }
};

void sweep_suspend(keep what, const suspend_options& options = {}) {
  fault_sweep{"suspend"}.run([&] { return std::make_unique<swept_regions>(what, options); },
                             [](auto& subject) { subject.sleep(); },
                             [](auto& subject) { subject.check_awake(); },
                             [](auto& subject) { subject.check_sleeps_whole(); });
}

void sweep_resume(keep what, const suspend_options& options = {}) {
  fault_sweep{"resume", after_failure::capacity}.run(
      [&] {
        auto result = std::make_unique<swept_regions>(what, options);
        result->sleep();
        return result;
      },
      [](auto& subject) { resume(subject.tag); },
      [](auto& subject) { subject.check_sleeps_whole(); },
      [](auto& subject) { subject.check_awake(); });
}

TEST_CASE("sleep: a suspend that fails leaves all awake") { sweep_suspend(keep::contents); }

TEST_CASE("sleep: a resume that fails leaves all asleep") { sweep_resume(keep::contents); }

HIPVMM_TEST_CASE_IN("sleep: a suspend to a file, and a resume from it, that fail",
                    with_small_chunks()) {
  // In memory: a sweep writes many files.
  const suspend_options options{sleep_storage::file, {}, "/dev/shm"};
  sweep_suspend(keep::contents, options);
  sweep_resume(keep::contents, options);
}

HIPVMM_TEST_CASE_IN("sleep: a suspend to pageable memory, and a resume from it, that fail",
                    with_small_chunks()) {
  const suspend_options options{sleep_storage::pageable, {}, {}};
  sweep_suspend(keep::contents, options);
  sweep_resume(keep::contents, options);
}

TEST_CASE("sleep: a suspend that fails where memory returns with the addresses only") {
  const assumed_capability assumed{kept_memory};
  sweep_suspend(keep::nothing);
}

TEST_CASE("sleep: a resume that fails where memory returns with the addresses only") {
  const assumed_capability assumed{kept_memory};
  sweep_resume(keep::nothing);
}

TEST_CASE("sleep: addresses that hold memory are freed and reserved at the same place") {
  const assumed_capability assumed{kept_memory};
  sleeping_regions subject;
  const call_counter frees{"hipMemAddressFree"};
  const std::size_t before = first_device.free_memory();
  suspend(subject.tag, keep::contents);
  CHECK(frees.count() == 2);
  CHECK(first_device.free_memory() >= before + 4 * subject.unit);
  // They stay ours.
  const address_reservation taken{subject.unit, 0, subject.base};
  CHECK(taken.get() != subject.base);
  resume(subject.tag);
  subject.check_awake();
}

/// Maps as much, as callers do that ask for no address: as a whole and in parts. All of it is
/// unmapped at the end of the object.
class others_mappings {
 public:
  explicit others_mappings(std::size_t bytes) {
    for (int i = 0; i < 16; ++i)
      for (std::size_t size = bytes; size >= bytes / 64; size /= 8) {
        void* const at = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(at != MAP_FAILED);
        all_.emplace_back(at, size);
      }
  }
  ~others_mappings() {
    for (const auto& [at, size] : all_) ::munmap(at, size);
  }
  others_mappings& operator=(others_mappings&&) = delete;
  [[nodiscard]] const void* lowest() const {
    return std::min_element(all_.begin(), all_.end())->first;
  }

 private:
  std::vector<std::pair<void*, std::size_t>> all_;
};

TEST_CASE("sleep: a place that others took is named, and nothing is lost") {
  const assumed_capability assumed{kept_memory};
  error_recorder reported;
  // Room above the regions, because the kernel maps the highest first: else, with ThreadSanitizer,
  // other threads may map where the addresses of the regions were.
  std::optional<others_mappings> above{16 * granule()};
  sleeping_regions subject;
  above.reset();
  {
    const planned_fault fault{"hipMemAddressReserve", 1, hipErrorOutOfMemory};
    suspend(subject.tag, keep::contents);
  }
  REQUIRE(reported.count() != 0);
  subject.check_asleep();
  {
    const address_reservation others{16 * subject.unit, 0, subject.base};
    REQUIRE(others.get() == subject.base);
    std::string text;
    try {
      resume(subject.tag);
    } catch (const out_of_memory& error) {
      text = error.what();
      CHECK(error.resource() == exhausted::addresses);
    }
    CHECK(text.find("others hold the addresses at 0x") != std::string::npos);
    subject.check_asleep();
  }
  CHECK(resume(subject.tag) == 4 * subject.unit);
  subject.check_awake();
}

TEST_CASE("sleep: mappings of others do not get the addresses that suspend() freed") {
  const assumed_capability assumed{kept_memory};
  error_recorder reported;
  sleeping_regions subject;
  // ThreadSanitizer gives no address that is asked for.
  if (others_mappings{16 * subject.unit}.lowest() < subject.base) return;
  {
    const planned_fault fault{"hipMemAddressReserve", 1, hipErrorOutOfMemory};
    suspend(subject.tag, keep::contents);
  }
  REQUIRE(reported.count() != 0);
  const others_mappings others{16 * subject.unit};
  CHECK(resume(subject.tag) == 4 * subject.unit);
  subject.check_awake();
}

TEST_CASE("sleep: a sleeper that lost its place may end") {
  const assumed_capability assumed{kept_memory};
  error_recorder reported;
  const hipvmm_host_counters before = live_objects();
  {
    sleeping_regions subject;
    const planned_fault fault{"hipMemAddressReserve", 1, hipErrorOutOfMemory};
    suspend(subject.tag, keep::contents);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("sleep: a device that never returns memory refuses") {
  const assumed_capability assumed{"returns_memory=no,returns_with_addresses=no"};
  sleeping_regions subject;
  CHECK_THROWS_AS(suspend(subject.tag, keep::contents), unsupported);
  subject.check_awake();
}

TEST_CASE("sleep: without room on the device all stays asleep") {
  sleeping_regions subject;
  suspend(subject.tag, keep::contents);
  {
    const std::size_t rest = first_device.free_memory() - 2 * subject.unit;
    const physical_chunk others{first_device, align_down(rest, subject.unit)};
    CHECK_THROWS_AS(resume(subject.tag), out_of_memory);
    subject.check_asleep();
  }
  resume(subject.tag);
  subject.check_awake();
}

TEST_CASE("sleep: a layout that could not be mapped again is refused while all is awake") {
  const assumed_capability assumed{"tail_access=no"};
  sleeping_regions subject;
  const std::size_t unit = subject.unit;
  const memory_tag& tag = subject.tag;
  region mixed{first_device, 8 * unit, tagged(tag)};
  mixed.commit(0, unit);
  mixed.commit(unit, unit);
  mixed.commit(2 * unit, 2 * unit);
  suspend(tag, keep::nothing);
  resume(tag);
  // Beside a hole, a chunk of another size gets no rights.
  mixed.decommit(unit, unit);
  write_tag(mixed, 2, 1, subject.stream);
  const std::string text = text_thrown_by<unsupported>([&] { suspend(tag, keep::nothing); });
  CHECK(text.find("beside a hole and chunks of other sizes") != std::string::npos);
  CHECK_FALSE(tag.is_asleep());
  CHECK(mixed.committed_bytes() == 3 * unit);
  CHECK(has_tag(mixed, 2, 1, subject.stream));
}

TEST_CASE("sleep: chunks of several sizes are all mapped again where one is not unmapped") {
  const assumed_capability assumed{"tail_access=no"};
  const std::size_t unit = granule();
  const memory_tag tag;
  region mixed{first_device, 8 * unit, tagged(tag)};
  stream stream{first_device};
  mixed.commit(0, unit);
  mixed.commit(unit, 2 * unit);
  mixed.commit(3 * unit, 4 * unit);
  for (const std::size_t each : {0U, 1U, 3U}) write_tag(mixed, each, 1, stream);
  for (const std::uint64_t nth : {1U, 2U, 3U}) {
    CAPTURE(nth);
    {
      const planned_fault fault{"hipMemUnmap", nth, hipErrorUnknown};
      CHECK_THROWS_AS(suspend(tag, keep::nothing), hip_error);
    }
    {
      const planned_fault fault{"hipMemUnmap", nth, hipErrorUnknown};
      CHECK_THROWS_AS(mixed.decommit(0, 7 * unit), hip_error);
    }
    REQUIRE(mixed.committed_from(0) == 7 * unit);
    for (const std::size_t each : {0U, 1U, 3U}) CHECK(has_tag(mixed, each, 1, stream));
  }
}

TEST_CASE("sleep: addresses keep no memory where resume maps a chunk and can set no rights") {
  const assumed_capability assumed{kept_memory};
  swept_regions subject{keep::nothing};
  subject.sleep();
  const std::size_t asleep = first_device.free_memory();
  for (const std::uint64_t nth : {1U, 2U}) {
    CAPTURE(nth);
    const planned_fault fault{"hipMemSetAccess", nth, hipErrorUnknown};
    CHECK_THROWS_AS(resume(subject.tag), hip_error);
    CHECK(first_device.free_memory() == asleep);
  }
  subject.check_sleeps_whole();
}

TEST_CASE("sleep: stripes wake on their devices") {
  const std::size_t unit = granule();
  const memory_tag tag;
  region_options options = tagged(tag);
  options.placement = chunk_placement::striped({first_device, second_device}, unit);
  region striped{first_device, 8 * unit, options};
  stream stream{first_device};
  striped.commit(0, 4 * unit);
  write_tags(striped, 0, 4, 1, stream);
  const std::size_t before = second_device.free_memory();
  suspend(tag, keep::contents);
  CHECK(second_device.free_memory() >= before + 2 * unit);
  resume(tag);
  check_tags(striped, 0, 4, 1, stream);
  const auto chunks = striped.chunks();
  REQUIRE(chunks.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(chunks[i].device == (i % 2 == 0 ? first_device : second_device));
}

TEST_CASE("sleep: memory of a device that is not current sleeps in each storage") {
  const std::size_t unit = granule();
  for (const sleep_storage storage : {sleep_storage::pinned, sleep_storage::pinned_kept,
                                      sleep_storage::pageable, sleep_storage::file}) {
    for (const bool is_prepared : {false, storage == sleep_storage::pinned}) {
      CAPTURE(static_cast<int>(storage));
      const memory_tag tag;
      region here{first_device, 5 * unit, tagged(tag)};
      region there{second_device, 5 * unit, tagged(tag)};
      const stream of_there{second_device};
      here.commit(0, unit);
      there.commit(0, 5 * unit);
      write_tags(there, 0, 5, 1, of_there);
      const suspend_options options{.storage = storage, .folder = "/tmp"};
      if (is_prepared) CHECK(prepare_suspend(tag, keep::contents, options) == 6 * unit);
      CHECK(suspend(tag, keep::contents, options) == 6 * unit);
      CHECK(resume(tag) == 6 * unit);
      check_tags(there, 0, 5, 1, of_there);
    }
  }
}

TEST_CASE("sleep: a capture elsewhere goes on while a stream is waited for") {
  sleeping_regions subject;
  stream captured{first_device};
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  // To free pinned memory would end the capture on CUDA.
  suspend(subject.tag, keep::contents, subject.stream, sleep_storage::pageable);
  resume(subject.tag);
  end_capture(captured.get());
  subject.check_awake();
}

TEST_CASE("sleep: a capture that forbids to wait for the devices leaves all awake") {
  HIPVMM_SKIP_UNDER(captures_allow_waits);
  const assumed_capability assumed{"free_waits=no"};
  sleeping_regions subject;
  stream captured{first_device};
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  CHECK_THROWS_AS(suspend(subject.tag, keep::contents), hip_error);
  static_cast<void>(end_capture_if_kept(captured.get()));
  subject.check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions,
                  "suspend: contents that their device may not read are refused") {
  first.set_access(0, unit, {{first_device, access_right::none}});
  CHECK_THROWS_WITH_AS(suspend(tag, keep::contents), doctest::Contains("at offset 0 of"),
                       std::invalid_argument);
  first.grant(first_device);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "suspend: maps again what a failed decommit left unmapped") {
  {
    const planned_faults faults{
        "hipMemUnmap nth=2 error=hipErrorUnknown; hipMemMap nth=1 error=hipErrorUnknown"};
    CHECK_THROWS_AS(first.decommit(0, 2 * unit), hip_error);
  }
  SUBCASE("as contents") { suspend(tag, keep::contents); }
  SUBCASE("as memory that stays") {
    // There memory stays only with all of its addresses.
    if (capability_of(first_device).needs(quirk::re_reserve)) return;
    suspend(tag, keep::contents, {.ranges = {{first.base(), 2 * unit, keep::mapped}}});
  }
  resume(tag);
  check_awake();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
