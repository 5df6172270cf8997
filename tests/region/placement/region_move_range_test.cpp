// SPDX-License-Identifier: MIT
// Bytes that move to another device behind their addresses.
#include <hipvmm/container/growable_device_vector.hpp>
#include "region/region_test.hpp"
#include "support/captures.hpp"
#include "support/device_use.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

#define REQUIRE_PEER() HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach")

/// Four chunks of a granule with tags, and a peer that may use them.
struct movable_region {
  explicit movable_region(device_ref peer, const region_options& options = {})
      : region{first_device, 16 * unit, options} {
    region.grant(peer);
    for (std::size_t i = 0; i < 4; ++i) region.commit(i * unit, unit);
    write_tags(region, 0, 4, 1, stream);
  }
  [[nodiscard]] std::vector<int> devices() const {
    std::vector<int> result;
    for (const chunk_view& each : region.chunks()) result.push_back(each.device.ordinal());
    return result;
  }

  const std::size_t unit = granule();
  hipvmm::stream stream;
  hipvmm::region region;
};

TEST_CASE("region: move_range moves chunks to another device and back, with all bytes and rights") {
  REQUIRE_PEER();
  const int p = peer.ordinal();
  movable_region subject{peer};
  auto& [unit, stream, region] = subject;
  const std::vector<chunk_view> before = region.chunks();
  CHECK(region.move_range(unit, 2 * unit, peer, stream) == 2 * unit);
  CHECK(subject.devices() == std::vector<int>{0, p, p, 0});
  const std::vector<chunk_view> after = region.chunks();
  CHECK(after[0].serial == before[0].serial);
  CHECK(after[1].serial > before[3].serial);
  CHECK(after[1].handle != before[1].handle);
  check_tags(region, 0, 4, 1, stream);
  const hipvmm::stream other{peer};
  check_tags(region, 0, 4, 1, other);
  for (const chunk_view& each : region.chunks()) {
    CHECK(get_access(each.address, first_device) == access_right::read_write);
    CHECK(get_access(each.address, peer) == access_right::read_write);
  }
  CHECK(region.committed_bytes() == 4 * unit);
  write_tags(region, 0, 4, 2, other);
  CHECK(region.move_range(0, 16 * unit, first_device, stream) == 2 * unit);
  CHECK(region.move_range(0, 16 * unit, first_device, stream) == 0);
  CHECK(subject.devices() == std::vector<int>{0, 0, 0, 0});
  check_tags(region, 0, 4, 2, stream);
}

TEST_CASE("region: move_range leaves what moved as every chunk is") {
  REQUIRE_PEER();
  movable_region subject{peer};
  auto& [unit, stream, region] = subject;
  region.move_range(0, 4 * unit, peer, stream);
  region.commit(4 * unit, unit);
  CHECK(region.chunks().back().device == first_device);
  region.extend(64 * unit, 6 * unit);
  check_tags(region, 0, 4, 1, stream);
  if (region.can_move_chunks() && takes_any_layout()) {
    region.move_chunk(0, 8 * unit);
    CHECK_THROWS_WITH_AS(region.move_range(8 * unit, unit, first_device, stream),
                         doctest::Contains("end_move"), std::invalid_argument);
    region.end_move(0);
    region.move_chunk(8 * unit, 0);
    region.end_move(8 * unit);
  }
  region.trim(2 * unit, stream);
  check_tags(region, 0, 2, 1, stream);
  region.trim(0, stream);
  CHECK(region.committed_bytes() == 0);
}

TEST_CASE("region: move_range frees memory of the old device") {
  REQUIRE_PEER();
  chunk_cache cache;
  movable_region subject{peer, {.cache = &cache}};
  auto& [unit, stream, region] = subject;
  drain_retired_memory();
  const std::size_t here = bytes_in_use();
  region.move_range(0, 4 * unit, peer, stream);
  CHECK(bytes_in_use() + 4 * unit == here);
}

TEST_CASE("region: move_range says what it cannot move") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  const stream stream;
  region subject{first_device, 16 * unit};
  subject.commit(0, 2 * unit);
  write_tags(subject, 0, 2, 1, stream);
  CHECK_THROWS_WITH_AS(subject.move_range(0, 2 * unit, peer, stream),
                       doctest::Contains("grant it read_write first"), std::invalid_argument);
  subject.grant(peer);
  CHECK_THROWS_WITH_AS(subject.move_range(unit, unit, peer, stream),
                       doctest::Contains("cut the chunk from offset 0"), std::invalid_argument);
  CHECK_THROWS_AS(subject.move_range(1, unit, peer, stream), std::invalid_argument);
  CHECK_THROWS_AS(subject.move_range(0, 17 * unit, peer, stream), std::out_of_range);
  CHECK_THROWS_AS(subject.move_range(0, 2 * unit, device_ref{64}, stream), std::invalid_argument);
  CHECK(subject.move_range(2 * unit, 2 * unit, peer, stream) == 0);
  region moved{std::move(subject)};
  CHECK_THROWS_AS(subject.move_range(0, unit, peer, stream), std::invalid_argument);
  check_tags(moved, 0, 2, 1, stream);
}

TEST_CASE("region: move_range in a captured stream is refused") {
  REQUIRE_PEER();
  movable_region subject{peer};
  auto& [unit, stream, region] = subject;
  const hipvmm::stream captured;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  CHECK_THROWS_WITH_AS(region.move_range(0, unit, peer, captured), doctest::Contains("captured"),
                       std::invalid_argument);
  end_capture(captured.get());
  CHECK(subject.devices().front() == 0);
  check_tags(region, 0, 4, 1, stream);
}

TEST_CASE("region: move_range of what HIP would not grant again moves nothing") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  const stream stream;
  region subject{first_device, 16 * unit};
  subject.grant(peer);
  subject.commit(0, unit);
  subject.commit(unit, unit);
  subject.commit(2 * unit, 2 * unit);
  write_tags(subject, 0, 4, 1, stream);
  subject.decommit(unit, unit);
  try {
    subject.move_range(0, 4 * unit, peer, stream);
    CHECK(subject.chunks().back().device == peer);
  } catch (const unsupported& error) {
    CHECK(!takes_any_layout());
    CHECK(std::string{error.what()}.find("beside a hole") != std::string::npos);
    CHECK(subject.chunks().back().device == first_device);
  }
  CHECK(subject.chunk_count() == 2);
  check_tags(subject, 0, 1, 1, stream);
  check_tags(subject, 2, 4, 1, stream);
}

TEST_CASE("growable_device_vector: move_range moves its chunks behind its address") {
  REQUIRE_PEER();
  const growth_options options{.max_bytes = 64 * MiB, .past_max = past_max_size::refuse};
  growable_device_vector<int> vector{first_device, options};
  const stream stream;
  vector.grant(peer);
  vector.resize(2'000'000, 7, stream);
  const int* const before = vector.data();
  const chunk_view last = vector.chunks().back();
  const std::size_t end = last.offset + last.bytes;
  CHECK(vector.move_range(0, end, peer, stream) == end);
  CHECK(vector.data() == before);
  CHECK(vector.chunks().front().device == peer);
  vector.resize(6'000'000, 7, stream);
  CHECK(vector.chunks().back().device == first_device);
  CHECK(vector.copy_to_host(stream) == std::vector<int>(6'000'000, 7));
  growable_device_vector<int> moved{std::move(vector)};
  CHECK(moved.move_range(0, end, first_device, stream) == end);
}

TEST_CASE("region: rights of move_range's target stay those of its memory") {
  REQUIRE_PEER();
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(peer), "two devices that do not reach");
  movable_region subject{peer};
  subject.region.move_range(0, subject.unit, peer, subject.stream);
  subject.region.set_access({{peer, access_right::read_write}});
  CHECK(subject.region.rights().other_owners() == std::vector<device_ref>{peer});
  CHECK_THROWS_AS(subject.region.set_access({{stranger, access_right::read}}), unsupported);
}

TEST_CASE("region: move_range keeps the rights of a chunk's own") {
  REQUIRE_PEER();
  if (!takes_any_layout()) return;
  movable_region subject{peer};
  auto& [unit, stream, region] = subject;
  region.set_access(unit, unit, {{peer, access_right::read}});
  region.move_range(0, 4 * unit, peer, stream);
  CHECK(get_access(region.chunks()[1].address, peer) == access_right::read);
  CHECK(get_access(region.chunks()[2].address, peer) == access_right::read_write);
  check_tags(region, 0, 4, 1, stream);
}

TEST_CASE("region: move_range moves a chunk that neither device may write") {
  REQUIRE_PEER();
  if (!takes_any_layout()) return;
  movable_region subject{peer};
  auto& [unit, stream, region] = subject;
  const access_list readers{{first_device, access_right::read}, {peer, access_right::read}};
  region.set_access(unit, unit, readers);
  region.move_range(0, 4 * unit, peer, stream);
  CHECK(region.chunks()[1].device == peer);
  for (const device_ref each : {first_device, peer})
    CHECK(get_access(region.chunks()[1].address, each) == access_right::read);
  check_tags(region, 0, 4, 1, stream);
}

TEST_CASE("region: move_range of a chunk that one of the devices cannot read is refused") {
  REQUIRE_PEER();
  if (!takes_any_layout()) return;
  movable_region subject{peer};
  auto& [unit, stream, region] = subject;
  for (const device_ref blind : {first_device, peer}) {
    const device_ref other = blind == peer ? first_device : peer;
    region.set_access(unit, unit, {{blind, access_right::none}, {other, access_right::read_write}});
    CHECK_THROWS_WITH_AS(region.move_range(0, 4 * unit, peer, stream),
                         doctest::Contains("has no right to the chunk at offset"),
                         std::invalid_argument);
    CHECK(subject.devices() == std::vector<int>{0, 0, 0, 0});
  }
}

TEST_CASE("region: move_range moves stripes, and growth goes on by stripes") {
  REQUIRE_PEER();
  const std::size_t unit = granule();
  const stream stream;
  const region_options options{.placement = chunk_placement::striped({first_device, peer}, unit)};
  region subject{first_device, 16 * unit, options};
  subject.commit(0, 4 * unit);
  write_tags(subject, 0, 4, 1, stream);
  CHECK(subject.move_range(0, 4 * unit, first_device, stream) == 2 * unit);
  subject.commit(4 * unit, 2 * unit);
  CHECK(subject.chunks().back().device == peer);
  check_tags(subject, 0, 4, 1, stream);
}

TEST_CASE("region: move_range to what not every device with access reaches is refused") {
  REQUIRE_PEER();
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(peer), "two devices that do not reach");
  movable_region subject{peer};
  auto& [unit, stream, region] = subject;
  region.move_range(0, 4 * unit, peer, stream);
  CHECK_THROWS_AS(region.grant(stranger), unsupported);
  CHECK_THROWS_AS(region.move_range(0, 4 * unit, stranger, stream), std::invalid_argument);
  check_tags(region, 0, 4, 1, stream);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
