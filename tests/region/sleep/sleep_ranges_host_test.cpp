// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "region/sleep/memory_tag.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/host/host_test.hpp"
#include "support/region/held_memory.hpp"

// Parts of a tag's memory that suspend() treats unlike the rest.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// A region of four chunks, all of whose bytes have a value.
struct one_region {
  const std::size_t unit = granule();
  memory_tag tag{"parts"};
  hipvmm::stream stream{first_device};
  region chunks{first_device, 8 * unit, tagged(tag)};
  suspend_options options;

  one_region() {
    for (std::size_t i = 0; i < 4; ++i) {
      chunks.commit(i * unit, unit);
      fill_async(stream, at(i * unit), static_cast<unsigned char>(i + 1), unit);
    }
    stream.synchronize();
  }
  [[nodiscard]] void* at(std::size_t offset) const { return advance(chunks.base(), offset); }
  void add(std::size_t offset, std::size_t bytes, keep what) {
    options.ranges.push_back({at(offset), bytes, what});
  }
  [[nodiscard]] bool has(std::size_t offset, std::size_t bytes, unsigned char value) const {
    std::vector<unsigned char> found(bytes);
    copy(stream, found.data(), at(offset), bytes);
    return found == std::vector<unsigned char>(bytes, value);
  }
  /// Whether some of a region can stay while the rest returns.
  [[nodiscard]] static bool may_stay() {
    return !capability_of(first_device).needs(quirk::re_reserve);
  }
};

TEST_CASE_FIXTURE(one_region,
                  "sleep: chunks that stay are used while the others are the device's") {
  if (!may_stay()) return;
  add(unit, 2 * unit, keep::mapped);
  const std::size_t before = first_device.free_memory();
  const std::uint64_t serial = chunks.chunks()[1].serial;
  CHECK(suspend(tag, keep::contents, options) == 2 * unit);
  CHECK(first_device.free_memory() == before + 2 * unit);
  const tag_statistics now = tag.statistics();
  CHECK(now.is_asleep);
  CHECK(now.bytes_asleep == 2 * unit);
  CHECK(now.bytes_mapped == 2 * unit);
  CHECK(now.bytes_on_host == 2 * unit);
  CHECK(chunks.chunk_count() == 2);
  CHECK(chunks.chunks().size() == 2);
  CHECK(chunks.chunk_bytes_at(0) == 0);
  CHECK(chunks.chunk_bytes_at(unit) == unit);
  CHECK(chunks.committed_from(0) == 0);
  CHECK(chunks.committed_from(unit) == 2 * unit);
  CHECK(chunks.committed_bytes() == 4 * unit);
  CHECK(has(unit, unit, 2));
  fill_async(stream, at(unit), 7, unit);
  stream.synchronize();
  CHECK_NOTHROW(detail::require_awake_at(at(unit), "use"));
  CHECK_NOTHROW(detail::require_awake_at(at(3 * unit - 1), "use"));
  CHECK_THROWS_AS(detail::require_awake_at(at(unit - 1), "use"), std::logic_error);
  CHECK_THROWS_AS(detail::require_awake_at(at(3 * unit), "use"), std::logic_error);
  CHECK_THROWS_AS(chunks.decommit(unit, unit), std::logic_error);
  CHECK(suspend(tag, keep::nothing) == 0);
  CHECK(resume(tag) == 2 * unit);
  CHECK(first_device.free_memory() == before);
  CHECK(has(0, unit, 1));
  CHECK(has(unit, unit, 7));
  CHECK(has(2 * unit, unit, 3));
  CHECK(has(3 * unit, unit, 4));
  CHECK(chunks.chunks()[1].serial == serial);
  CHECK(chunks.committed_bytes() == 4 * unit);
  CHECK(tag.statistics().bytes_mapped == 0);
  CHECK_NOTHROW(detail::require_awake_at(at(0), "use"));
  // The next one is as it asks for.
  CHECK(suspend(tag, keep::contents) == 4 * unit);
  CHECK_THROWS_AS(detail::require_awake_at(at(unit), "use"), std::logic_error);
  CHECK(resume(tag) == 4 * unit);
  CHECK(has(unit, unit, 7));
}

TEST_CASE_FIXTURE(one_region, "sleep: a chunk of which a part is to stay keeps that part") {
  if (!may_stay()) return;
  for (const sleep_storage where :
       {sleep_storage::pinned, sleep_storage::pageable, sleep_storage::file}) {
    for (const keep other : {keep::zeros, keep::nothing}) {
      options = {where, {}, where == sleep_storage::file ? "/dev/shm" : "", {}};
      fill_async(stream, at(0), 1, unit);
      add(0, unit / 2, other);
      CHECK(suspend(tag, keep::mapped, options) == unit);
      CHECK(resume(tag) == unit);
      if (other == keep::zeros) CHECK(has(0, unit / 2, 0));
      CHECK(has(unit / 2, unit - unit / 2, 1));
      CHECK(has(unit, unit, 2));
    }
  }
}

TEST_CASE_FIXTURE(one_region, "sleep: zeros, contents and dropped bytes side by side") {
  for (const sleep_storage where :
       {sleep_storage::pinned, sleep_storage::pageable, sleep_storage::file}) {
    options = {where, {}, where == sleep_storage::file ? "/dev/shm" : "", {}};
    for (std::size_t i = 0; i < 4; ++i)
      fill_async(stream, at(i * unit), static_cast<unsigned char>(i + 1), unit);
    add(unit + 3, 2 * unit, keep::zeros);  // of three chunks
    add(3, unit, keep::nothing);
    const std::size_t before = first_device.free_memory();
    CHECK(suspend(tag, keep::contents, options) == 4 * unit);
    CHECK(first_device.free_memory() == before + 4 * unit);
    const tag_statistics now = tag.statistics();
    CHECK(now.bytes_on_host + now.bytes_on_disk == unit);
    CHECK(resume(tag) == 4 * unit);
    CHECK(has(0, 3, 1));
    CHECK(has(unit + 3, 2 * unit, 0));
    CHECK(has(3 * unit + 3, unit - 3, 4));
  }
}

TEST_CASE_FIXTURE(one_region, "sleep: contents of a part where the rest is dropped, or is zeros") {
  add(unit, 100, keep::contents);
  suspend(tag, keep::nothing, options);
  CHECK(tag.statistics().bytes_on_host == 100);
  resume(tag);
  CHECK(has(unit, 100, 2));
  CHECK(tag.statistics().bytes_on_host == 0);
  suspend(tag, keep::zeros, options);
  CHECK(tag.statistics().bytes_on_host == 100);
  resume(tag);
  CHECK(has(0, unit, 0));
  CHECK(has(unit, 100, 2));
  CHECK(has(unit + 100, unit - 100, 0));
  CHECK(has(2 * unit, 2 * unit, 0));
}

TEST_CASE_FIXTURE(one_region, "sleep: a chunk of which not all is to stay is copied") {
  add(unit / 2, unit, keep::mapped);
  CHECK(suspend(tag, keep::nothing, options) == 4 * unit);
  CHECK(tag.statistics().bytes_mapped == 0);
  CHECK(tag.statistics().bytes_on_host == unit);
  CHECK_THROWS_AS(detail::require_awake_at(at(unit), "use"), std::logic_error);
  resume(tag);
  CHECK(has(unit / 2, unit / 2, 1));
  CHECK(has(unit, unit / 2, 2));
  if (!may_stay()) return;
  // Two ranges that touch are one.
  options.ranges.clear();
  add(0, unit / 2, keep::mapped);
  add(unit / 2, unit / 2 + 1, keep::mapped);
  CHECK(suspend(tag, keep::nothing, options) == 3 * unit);
  CHECK(tag.statistics().bytes_mapped == unit);
  CHECK(tag.statistics().bytes_on_host == 1);
  resume(tag);
}

TEST_CASE_FIXTURE(one_region, "sleep: all stays but what is named") {
  if (!may_stay()) return;
  add(2 * unit, unit, keep::nothing);
  CHECK(suspend(tag, keep::mapped, options) == unit);
  CHECK(tag.statistics().bytes_mapped == 3 * unit);
  CHECK(tag.statistics().bytes_on_host == 0);
  CHECK(resume(tag) == unit);
  CHECK(has(0, unit, 1));
  CHECK(has(3 * unit, unit, 4));
}

TEST_CASE_FIXTURE(one_region, "sleep: ranges that name no memory of the tag are refused") {
  region other{first_device, 4 * unit};
  other.commit(0, unit);
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  char host = 0;
  const auto refused = [&](std::vector<suspend_range> ranges, const char* text) {
    options.ranges = std::move(ranges);
    for (const keep what : {keep::contents, keep::nothing})
      CHECK_THROWS_WITH_AS(suspend(tag, what, options), doctest::Contains(text),
                           std::invalid_argument);
    CHECK_FALSE(tag.is_asleep());
    CHECK(chunks.chunk_count() == 4);
  };
  const keep what = keep::zeros;
  refused({{nullptr, unit, what}}, "names no memory");
  refused({{at(0), 0, what}}, "names no memory");
  refused({{at(0), most, what}}, "ends beyond all addresses");
  refused({{at(unit), unit, what}, {at(0), unit + 1, what}}, "overlaps the range of");
  refused({{at(unit), unit, what}, {at(unit), unit, what}}, "overlaps the range of");
  refused({{other.base(), unit, what}}, "carries the tag \"parts\"");
  refused({{&host, 1, what}}, "carries the tag \"parts\"");
  refused({{at(7 * unit), 2 * unit, what}}, "carries the tag \"parts\"");
  const std::string all = std::to_string(unit);
  refused({{at(3 * unit), unit + 1, what}}, ("only " + all + " are backed by memory").c_str());
  refused({{at(5 * unit), 1, what}}, "only 0 are backed by memory");
  CHECK(has(0, unit, 1));
  CHECK(suspend(tag, keep::contents) == 4 * unit);
  CHECK_THROWS_AS(suspend(tag, keep::contents, {{}, {}, {}, {{nullptr, 1, what}}}),
                  std::invalid_argument);
  resume(tag);
}

TEST_CASE("sleep: where memory returns with its addresses a region stays as a whole") {
  const assumed_capability assumed{kept_memory};
  one_region subject;
  const std::size_t unit = subject.unit;
  region other{first_device, 4 * unit, tagged(subject.tag)};
  other.commit(0, unit);
  fill_async(subject.stream, other.base(), 9, unit);
  subject.add(0, unit, keep::mapped);
  CHECK_THROWS_WITH_AS(suspend(subject.tag, keep::nothing, subject.options),
                       doctest::Contains("a region or vector of their own"), unsupported);
  CHECK_FALSE(subject.tag.is_asleep());
  CHECK(subject.has(0, unit, 1));
  subject.options.ranges = {{other.base(), unit, keep::mapped}};
  const std::size_t before = first_device.free_memory();
  CHECK(suspend(subject.tag, keep::contents, subject.options) == 4 * unit);
  CHECK(first_device.free_memory() == before + 4 * unit);
  CHECK(subject.tag.statistics().bytes_mapped == unit);
  std::vector<unsigned char> found(unit);
  copy(subject.stream, found.data(), other.base(), unit);
  CHECK(found == std::vector<unsigned char>(unit, 9));
  CHECK(resume(subject.tag) == 4 * unit);
  CHECK(first_device.free_memory() == before);
  CHECK(subject.has(0, unit, 1));
  CHECK(subject.has(3 * unit, unit, 4));
}

TEST_CASE("sleep: chunks that stay behind a hole must have one size if rights need that") {
  const assumed_capability assumed{"tail_access=no,returns_memory=yes"};
  const std::size_t unit = granule();
  const memory_tag tag;
  region mixed{first_device, 8 * unit, tagged(tag)};
  mixed.commit(0, unit);
  mixed.commit(unit, unit);
  mixed.commit(2 * unit, 2 * unit);
  const stream stream{first_device};
  write_tags(mixed, 0, 4, 1, stream);
  suspend_options options;
  const auto stays = [&](std::size_t offset, std::size_t bytes) {
    options.ranges = {{advance(mixed.base(), offset), bytes, keep::mapped}};
  };
  stays(2 * unit, 2 * unit);
  CHECK_THROWS_WITH_AS(suspend(tag, keep::contents, options), doctest::Contains("behind a hole"),
                       unsupported);
  CHECK_FALSE(tag.is_asleep());
  check_tags(mixed, 0, 4, 1, stream);
  stays(0, 2 * unit);
  CHECK(suspend(tag, keep::contents, options) == 2 * unit);
  CHECK(resume(tag) == 2 * unit);
  check_tags(mixed, 0, 4, 1, stream);
}

TEST_CASE("sleep: a region with chunks that stay may end while it sleeps") {
  if (!one_region::may_stay()) return;
  const hipvmm_host_counters before = live_objects();
  {
    one_region subject;
    subject.add(0, subject.unit, keep::mapped);
    suspend(subject.tag, keep::contents, subject.options);
    region ended = std::move(subject.chunks);
  }
  drain_retired_memory();
  CHECK(live_objects() == before);
}

TEST_CASE_FIXTURE(one_region, "sleep: a chunk that others use may stay") {
  if (!one_region::may_stay()) return;
  const memory_tag others;
  region_options shareable = tagged(others);
  shareable.shareable = handle_type::posix_fd;
  region shared{first_device, 4 * unit, shareable};
  shared.commit(0, unit);
  shared.commit(unit, unit);
  const auto exported = shared.export_range(0, unit);
  CHECK_THROWS_AS(suspend(others, keep::nothing), std::invalid_argument);
  const suspend_options stays{{}, {}, {}, {{shared.base(), unit, keep::mapped}}};
  CHECK(suspend(others, keep::nothing, stays) == unit);
  resume(others);
  CHECK(shared.chunk_count() == 2);
}

/// The parts of a sweep: zeros, contents, dropped bytes, and chunks that stay if they can.
struct swept_parts : one_region {
  explicit swept_parts(const suspend_options& chosen) {
    options = chosen;
    add(unit / 2, unit, keep::zeros);
    if (may_stay()) add(2 * unit, unit, keep::mapped);
    add(3 * unit, 5, keep::nothing);
  }
  void sleep() const { suspend(tag, keep::contents, options); }
  void check_contents() const {
    CHECK_FALSE(tag.is_asleep());
    CHECK(chunks.chunk_count() == 4);
    CHECK(tag.statistics().bytes_on_host == 0);
    CHECK(has(0, unit / 2, 1));
    CHECK(has(unit + unit / 2, unit / 2, 2));
    CHECK(has(2 * unit, unit, 3));
    CHECK(has(3 * unit + 5, unit - 5, 4));
  }
  void check_awake() const {
    check_contents();
    CHECK(has(unit / 2, unit / 2, 1));
    CHECK(has(unit, unit / 2, 2));
  }
  void check_woken() const {
    check_contents();
    CHECK(has(unit / 2, unit, 0));
  }
  void check_sleeps_whole() const {
    CHECK(tag.is_asleep());
    resume(tag);
    check_woken();
  }
};

void sweep_parts(const suspend_options& options) {
  fault_sweep{"suspend"}.run([&] { return std::make_unique<swept_parts>(options); },
                             [](auto& subject) { subject.sleep(); },
                             [](auto& subject) {
                               // If HIP refuses to map the unmapped chunks again, it sleeps.
                               if (subject.tag.is_asleep()) resume(subject.tag);
                               subject.check_awake();
                             },
                             [](auto& subject) { subject.check_sleeps_whole(); });
  fault_sweep{"resume", after_failure::capacity}.run(
      [&] {
        auto result = std::make_unique<swept_parts>(options);
        result->sleep();
        return result;
      },
      [](auto& subject) { resume(subject.tag); },
      [](auto& subject) { subject.check_sleeps_whole(); },
      [](auto& subject) { subject.check_woken(); });
}

HIPVMM_TEST_CASE_IN("sleep: parts are whole whatever call fails, with pinned memory",
                    with_small_chunks()) {
  sweep_parts({});
}

HIPVMM_TEST_CASE_IN("sleep: parts are whole whatever call fails, with pageable memory",
                    with_small_chunks()) {
  sweep_parts({sleep_storage::pageable, {}, {}, {}});
}

HIPVMM_TEST_CASE_IN("sleep: parts are whole whatever call fails, with files", with_small_chunks()) {
  sweep_parts({sleep_storage::file, {}, "/dev/shm", {}});
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
