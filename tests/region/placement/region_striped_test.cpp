// SPDX-License-Identifier: MIT
// Regions and vectors whose chunks are on several devices.
#include <hipvmm/vmm/chunk_placement.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

#define REQUIRE_PEER() HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach")

region_options striped_over(std::vector<device_ref> devices, std::size_t stripe) {
  return region_options{.placement = chunk_placement::striped(std::move(devices), stripe)};
}

/// The device of every granule of the region, as its chunks say; -1 for one that is not backed.
std::vector<int> devices_in(const region& target, std::size_t granules) {
  std::vector<int> result(granules, -1);
  for (const chunk_view& each : target.chunks())
    for (std::size_t done = 0; done < each.bytes; done += target.granularity())
      result.at((each.offset + done) / target.granularity()) = each.device.ordinal();
  return result;
}

/// The first `granules` of stripes of two granules on devices 0 and `peer` in turn.
std::vector<int> pairs(std::size_t granules, device_ref peer, std::size_t first = 0) {
  std::vector<int> result;
  for (std::size_t i = first; i < first + granules; ++i)
    result.push_back(i / 2 % 2 == 0 ? 0 : peer.ordinal());
  return result;
}

std::string refusal_of(device_ref device, const region_options& options) {
  return text_thrown_by([&] { const region made{device, 8 * granule(), options}; });
}

TEST_CASE("chunk_placement: stripes that no chunk could have are refused") {
  CHECK_THROWS_WITH_AS(static_cast<void>(chunk_placement::striped({}, granule())),
                       doctest::Contains("no device"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(chunk_placement::striped({first_device}, granule() / 2)),
                       doctest::Contains("granularity of device 0"), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(chunk_placement::striped({first_device}, 0)),
                  std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(chunk_placement::striped({device_ref{64}}, granule())),
                  std::invalid_argument);
  CHECK(chunk_placement{}.is_one_device());
  CHECK(chunk_placement::striped({first_device}, granule()).is_striped());
}

TEST_CASE("region: a device must be one of its stripes', and all must reach each other") {
  REQUIRE_PEER();
  CHECK(
      refusal_of(first_device, striped_over({peer}, granule())).find("the region's, is none of") !=
      std::string::npos);
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "two devices that do not");
  const std::string text =
      refusal_of(first_device, striped_over({first_device, stranger}, granule()));
  CHECK(text.find("device " + std::to_string(stranger.ordinal())) != std::string::npos);
  CHECK(text.find("cannot reach the memory of device ") != std::string::npos);
  CHECK(text.find("link") != std::string::npos);
}

TEST_CASE("region: growth makes each chunk on the device of its stripe") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  const stream stream;
  region subject{first_device, 16 * unit, striped_over({first_device, peer}, 2 * unit)};
  CHECK(subject.access(peer) == access_right::read_write);
  subject.commit(0, 3 * unit);
  CHECK(subject.chunk_count() == 2);
  subject.commit(3 * unit, 8 * unit);
  CHECK(devices_in(subject, 11) == pairs(11, peer));
  for (const chunk_view& each : subject.chunks()) {
    CHECK(each.offset / (2 * unit) == (each.offset + each.bytes - 1) / (2 * unit));
    CHECK(get_access(each.address, first_device) == access_right::read_write);
    CHECK(get_access(each.address, peer) == access_right::read_write);
  }
  write_tags(subject, 0, 11, 1, stream);
  const hipvmm::stream other{peer};
  check_tags(subject, 0, 11, 1, other);
}

TEST_CASE("region: a device named twice has two stripes of each turn") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  region subject{first_device, 8 * unit, striped_over({first_device, first_device, peer}, unit)};
  subject.commit(0, 6 * unit);
  const int p = peer.ordinal();
  CHECK(devices_in(subject, 6) == std::vector<int>{0, 0, p, 0, 0, p});
}

TEST_CASE("region: a chunk made ahead is on the device of its stripe, and no longer") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  for (const prefetch_level how : {prefetch_level::created, prefetch_level::mapped}) {
    region subject{first_device, 16 * unit, striped_over({first_device, peer}, 2 * unit)};
    subject.commit(0, 3 * unit);
    subject.prepare(8 * unit, how);
    CHECK(subject.cancel_or_wait() <= unit);
    subject.commit(3 * unit, unit);
    CHECK(devices_in(subject, 4) == pairs(4, peer));
    subject.prepare(8 * unit, how);
    CHECK(subject.cancel_or_wait() <= 2 * unit);
    subject.commit(4 * unit, 4 * unit);
    CHECK(devices_in(subject, 8) == pairs(8, peer));
  }
}

TEST_CASE("region: an order for a chunk ahead that was cancelled is filled by stripes") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  region subject{first_device, 16 * unit, striped_over({first_device, peer}, 2 * unit)};
  subject.commit(0, unit);
  subject.prepare(4 * unit, prefetch_level::mapped);
  subject.commit(unit, 5 * unit);
  CHECK(devices_in(subject, 6) == pairs(6, peer));
}

TEST_CASE("region: stripes stay where they are when the region moves") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  const stream stream;
  region subject{first_device, 8 * unit, striped_over({first_device, peer}, 2 * unit)};
  subject.commit(0, 8 * unit);
  write_tags(subject, 0, 8, 1, stream);
  subject.extend(32 * unit, 12 * unit);
  CHECK(devices_in(subject, 12) == pairs(12, peer));
  check_tags(subject, 0, 8, 1, stream);
  subject.decommit(0, 2 * unit);
  subject.rebase(2 * unit, 32 * unit, 14 * unit);
  CHECK(devices_in(subject, 14) == pairs(14, peer, 2));
}

TEST_CASE("region: a chunk that trim replaces stays on its device") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  const stream stream;
  region subject{first_device, 32 * unit, striped_over({first_device, peer}, 8 * unit)};
  subject.commit(0, 16 * unit);
  write_tags(subject, 0, 16, 1, stream);
  subject.trim(10 * unit, stream, tail_chunk::replace);
  CHECK(subject.committed_bytes() == 10 * unit);
  CHECK(subject.chunks().back().device == peer);
  check_tags(subject, 0, 10, 1, stream);
}

TEST_CASE("region: a chunk that moves stays on its device") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  region subject{first_device, 16 * unit, striped_over({first_device, peer}, unit)};
  if (!subject.can_move_chunks()) return;
  subject.commit(0, 2 * unit);
  subject.move_chunk(unit, 2 * unit);
  subject.end_move(unit);
  CHECK(subject.chunks().back().device == peer);
}

TEST_CASE("region: chunks of each device come from that device's cache") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  chunk_cache cache{64 * unit};
  region_options options = striped_over({first_device, peer}, unit);
  options.cache = &cache;
  {
    region subject{first_device, 16 * unit, options};
    subject.commit(0, 4 * unit);
  }
  CHECK(cache.statistics(first_device).chunks == 2);
  CHECK(cache.statistics(peer).chunks == 2);
  region subject{first_device, 16 * unit, options};
  subject.commit(0, 4 * unit);
  CHECK(cache.statistics(peer).hits == 2);
  CHECK(devices_in(subject, 4) == std::vector<int>{0, peer.ordinal(), 0, peer.ordinal()});
}

TEST_CASE("region: rights to stripes are granted where a device reaches all of them") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  region subject{first_device, 16 * unit, striped_over({first_device, peer}, unit)};
  subject.commit(0, 4 * unit);
  subject.grant(peer, access_right::none);
  subject.grant(peer, access_right::read_write);
  subject.revoke(first_device);
  for (const chunk_view& each : subject.chunks()) {
    CHECK(get_access(each.address, first_device) == access_right::none);
    CHECK(get_access(each.address, peer) == access_right::read_write);
  }
  subject.set_access(access_list{});
  for (const chunk_view& each : subject.chunks()) {
    CHECK(get_access(each.address, first_device) == access_right::read_write);
    CHECK(get_access(each.address, peer) == access_right::read_write);
  }
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "two devices that do not reach");
  CHECK_THROWS_AS(subject.grant(stranger), unsupported);
}

TEST_CASE("growable_device_vector: grows in place over the stripes") {
  REQUIRE_PEER();
  growable_device_vector<int> vector{
      first_device, {.max_bytes = 64 * MiB, .chunks = striped_over({first_device, peer}, 2 * MiB)}};
  const stream stream;
  std::vector<int> expected;
  for (int round = 1; round <= 4; ++round) {
    std::vector<int> more(1'000'000);
    std::iota(more.begin(), more.end(), round);
    vector.append(more, stream);
    expected.insert(expected.end(), more.begin(), more.end());
  }
  CHECK(vector.copy_to_host(stream) == expected);
  for (const chunk_view& each : vector.chunks()) {
    CHECK(each.device == (each.offset / (2 * MiB) % 2 == 0 ? first_device : peer));
    CHECK(each.bytes <= 2 * MiB);
  }
  vector.erase_front(1'500'000, stream);
  vector.append(expected, stream);
  const auto all = vector.copy_to_host(stream);
  CHECK(std::vector<int>(all.end() - 4'000'000, all.end()) == expected);
}

// In a process of its own: memory of devices that were copied between waits for both from then on,
// and tests of retirement keep one of them busy.
HIPVMM_TEST_CASE_IN("growable_device_vector: copies from a device into stripes of another", {}) {
  REQUIRE_PEER();
  growable_device_vector<int> vector{
      first_device, {.max_bytes = 64 * MiB, .chunks = striped_over({first_device, peer}, 2 * MiB)}};
  growable_device_vector<int> source{peer};
  source.grant(first_device);
  const stream stream;
  const hipvmm::stream other{peer};
  source.resize(2'000'000, 7, other);
  other.synchronize();
  vector.append(source, stream);
  CHECK(vector.copy_to_host(stream) == std::vector<int>(2'000'000, 7));
}

TEST_CASE("growable_device_vector: memory that is no chunks cannot be placed") {
  REQUIRE_PEER();
  mr::hip_resource resource{first_device};
  const growth_options options{.chunks = striped_over({first_device, peer}, 2 * MiB),
                               .resource = &resource};
  CHECK_THROWS_WITH_AS((growable_device_vector<int>{first_device, options}),
                       doctest::Contains("growth_options::chunks.placement"), unsupported);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
