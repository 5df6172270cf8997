// SPDX-License-Identifier: MIT
// Events about rights that differ from chunk to chunk.
#include <hipvmm/core/observers/memory_events.hpp>
#include "region/region_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

const access_list for_reading{{second_device, access_right::read}};
const access_list for_writing{{second_device, access_right::read_write}};

/// Three chunks of one granule each, and the events about their rights.
struct watched_region {
  const std::size_t unit = granule();
  hipvmm::region region{first_device, 8 * granule()};
  memory_event_subscription events{64};

  watched_region() {
    for (std::size_t i = 0; i < 3; ++i) region.commit(i * unit, unit);
    static_cast<void>(events.read());
  }
  /// The changes since the last call: of whom, and whether it lost its right.
  [[nodiscard]] std::vector<std::pair<int, bool>> changes() {
    std::vector<std::pair<int, bool>> result;
    for (const memory_event& one : events.read())
      if (one.object == region.event_id())
        result.emplace_back(one.peer, one.kind == memory_event_kind::revoke);
    return result;
  }
};

using changed = std::vector<std::pair<int, bool>>;
constexpr bool got = false;
constexpr bool lost = true;

TEST_CASE("region: rights of one chunk say nothing of what another chunk gets") {
  watched_region all;
  all.region.set_access(0, all.unit, for_writing);
  CHECK(all.changes() == changed{{1, got}});
  // The first chunk has them already.
  all.region.set_access(all.unit, all.unit, for_writing);
  CHECK(all.changes() == changed{{1, got}});
  all.region.set_access(0, 2 * all.unit, for_writing);
  CHECK(all.changes().empty());
  // The third chunk had none.
  all.region.set_access(2 * all.unit, all.unit, {});
  CHECK(all.changes().empty());
  all.region.set_access(0, all.unit, for_reading);
  CHECK(all.changes() == changed{{1, got}});
  all.region.set_access(0, 3 * all.unit, {});
  CHECK(all.changes() == changed{{1, lost}});
}

TEST_CASE("region: rights of the whole region are compared with those of each chunk") {
  watched_region all;
  all.region.set_access(0, all.unit, for_reading);
  CHECK(all.changes() == changed{{1, got}});
  all.region.set_access(for_reading);
  CHECK(all.changes() == changed{{1, got}});
  all.region.set_access(for_reading);
  CHECK(all.changes().empty());
  all.region.set_access(all.unit, all.unit, {});
  CHECK(all.changes() == changed{{1, lost}});
  all.region.set_access(for_reading);
  CHECK(all.changes() == changed{{1, got}});
  // A right that only one chunk has ends with the rights of all.
  all.region.set_access({});
  CHECK(all.changes() == changed{{1, lost}});
  all.region.set_access(all.unit, all.unit, for_writing);
  CHECK(all.changes() == changed{{1, got}});
  all.region.set_access({});
  CHECK(all.changes() == changed{{1, lost}});
}

TEST_CASE("region: rights to what is backed later are a change where no chunk is there") {
  watched_region all;
  all.region.decommit(0, 3 * all.unit);
  static_cast<void>(all.changes());
  all.region.set_access(for_reading);
  CHECK(all.changes() == changed{{1, got}});
  all.region.set_access({});
  CHECK(all.changes() == changed{{1, lost}});
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
