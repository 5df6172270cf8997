// SPDX-License-Identifier: MIT
// Stripes if a device is full or a HIP call fails.
#include "region/region_test.hpp"
#include "support/device_use.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

region_options two_stripes() {
  return region_options{.placement =
                            chunk_placement::striped({first_device, second_device}, granule())};
}

/// Four granules in stripes of one, and addresses for sixteen.
struct striped_region : region_of<16> {
  // The reservation behind the region makes extend() move it.
  address_reservation blocker{unit, 0, advance(region.base(), region.max_bytes())};
  void* const base = region.base();

  striped_region() : region_of{two_stripes()} {
    region.commit(0, 4 * unit);
    write_tags(region, 0, 4, 1, stream);
  }
  void check_unchanged() const {
    CHECK(region.base() == base);
    CHECK(region.committed_bytes() == 4 * unit);
    CHECK(region.chunk_count() == 4);
    check_tags(region, 0, 4, 1, stream);
  }
};
constexpr auto make_striped = [] { return std::make_unique<striped_region>(); };
constexpr auto striped_is_unchanged = [](auto& s) { s.check_unchanged(); };

TEST_CASE("region: a construction with stripes that fails leaves nothing") {
  fault_sweep{"striped region"}.run([] {
    const region value{first_device, 16 * granule(), two_stripes()};
  });
}

TEST_CASE("region: growth over stripes that fails leaves the region as it was") {
  fault_sweep{"striped commit"}.run(
      make_striped,
      [](auto& subject) { subject.region.commit(4 * subject.unit, 4 * subject.unit); },
      striped_is_unchanged,
      [](auto& subject) {
        CHECK(subject.region.committed_from(0) == 8 * subject.unit);
        for (const chunk_view& each : subject.region.chunks())
          CHECK(each.device.ordinal() == static_cast<int>(each.offset / subject.unit % 2));
      });
}

TEST_CASE("region: a move of stripes to other addresses that fails leaves the region as it was") {
  fault_sweep{"striped extend"}.run(
      make_striped,
      [](auto& subject) { subject.region.extend(32 * subject.unit, 6 * subject.unit); },
      striped_is_unchanged,
      [](auto& subject) {
        CHECK(subject.region.committed_from(0) == 6 * subject.unit);
        check_tags(subject.region, 0, 4, 1, subject.stream);
      });
}

TEST_CASE("region: out_of_memory names the device that is full") {
  const std::size_t unit = granule();
  chunk_cache::shared().trim();
  drain_retired_memory();
  const std::size_t left = free_memory_at_rest(second_device);
  const physical_chunk most{second_device, left - unit};
  region subject{first_device, 16 * unit, two_stripes()};
  const auto error = thrown_by<out_of_memory>([&] { subject.commit(0, 4 * unit); });
  CHECK(error.device() == 1);
  CHECK(error.resource() == exhausted::device_memory);
  const std::string text = error.what();
  CHECK(text.find("device 1 has ") != std::string::npos);
  CHECK(subject.committed_bytes() == 0);
  // If memory returns only with its addresses, the region keeps the chunks of the refused commit.
  if (capability_of(first_device).needs(quirk::re_reserve)) return;
  subject.commit(0, 3 * unit);
}

TEST_CASE("region: growth waits for retired stripes of the device that is full") {
  const std::size_t unit = granule();
  chunk_cache::shared().trim();
  drain_retired_memory();
  region old{first_device, 4 * unit, two_stripes()};
  old.commit(0, 2 * unit);
  const std::size_t left = free_memory_at_rest(second_device);
  const physical_chunk most{second_device, left};
  old.retire();
  region_options options = two_stripes();
  region subject{first_device, 16 * unit, options};
  subject.commit(0, 2 * unit);
  CHECK(subject.committed_bytes() == 2 * unit);
}

TEST_CASE("region: stripes that are released wait for the work of each device") {
  const std::size_t unit = granule();
  for (const device_ref user : {first_device, second_device}) {
    region subject{first_device, 16 * unit, two_stripes()};
    subject.commit(0, 4 * unit);
    blocked_stream busy{user};
    subject.retire();
    CHECK(retired_memory().waiting_bytes == 4 * unit);
    busy.release();
    drain_retired_memory();
    CHECK(retired_memory().waiting_bytes == 0);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
