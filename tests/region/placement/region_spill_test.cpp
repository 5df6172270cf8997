// SPDX-License-Identifier: MIT
// Regions that go on in memory of the host when their budget of the device is used up.
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/region/retained_chunk.hpp>
#include "region/region_test.hpp"
#include "support/device_use.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

bool has_host_chunks() { return capability_of(first_device).has(trait::host_chunks); }

#define REQUIRE_HOST_CHUNKS()                                                                    \
  do {                                                                                           \
    if (!has_host_chunks()) {                                                                    \
      MESSAGE("skipped: ", std::string{capability_of(first_device).reason(trait::host_chunks)}); \
      return;                                                                                    \
    }                                                                                            \
  } while (false)

region_options spilled(std::size_t budget, chunk_cache* cache = nullptr) {
  return region_options{.cache = cache, .placement = chunk_placement::spill(budget)};
}

/// One letter for each granule: on the (d)evice, on the (h)ost, or (-) not backed.
std::string places_in(const region& target, std::size_t granules) {
  std::string result(granules, '-');
  for (const chunk_view& each : target.chunks())
    for (std::size_t done = 0; done < each.bytes; done += target.granularity())
      result.at((each.offset + done) / target.granularity()) = each.location.is_host() ? 'h' : 'd';
  return result;
}

TEST_CASE("region: a release without chunks on the host says so, and nothing else happens") {
  if (has_host_chunks()) return;
  const std::size_t unit = granule();
  const std::string reason{capability_of(first_device).reason(trait::host_chunks)};
  CHECK(!reason.empty());
  CHECK_THROWS_WITH_AS((region{first_device, 8 * unit, spilled(unit)}),
                       doctest::Contains(reason.c_str()), unsupported);
  region plain{first_device, 8 * unit};
  plain.commit(0, unit);
  const stream stream;
  write_tags(plain, 0, 1, 1, stream);
  CHECK_THROWS_WITH_AS(plain.move_range(0, unit, memory_location::host(), stream),
                       doctest::Contains(reason.c_str()), unsupported);
  CHECK(places_in(plain, 1) == "d");
  check_tags(plain, 0, 1, 1, stream);
  CHECK_THROWS_AS((physical_chunk{memory_location::host(), unit, first_device}), hip_error);
}

TEST_CASE("region: a budget that no chunks can fill, and shared chunks, are refused") {
  REQUIRE_HOST_CHUNKS();
  const std::size_t unit = granule();
  CHECK_THROWS_WITH_AS((region{first_device, 8 * unit, spilled(unit + 1)}),
                       doctest::Contains("multiple of the granularity"), std::invalid_argument);
  region_options shared = spilled(unit);
  shared.shareable = handle_type::posix_fd;
  CHECK_THROWS_WITH_AS((region{first_device, 8 * unit, shared}), doctest::Contains("shareable"),
                       unsupported);
}

TEST_CASE("region: growth goes on in memory of the host when the budget is used up") {
  REQUIRE_HOST_CHUNKS();
  const std::size_t unit = granule();
  const stream stream;
  chunk_cache cache;
  drain_retired_memory();
  const std::size_t before = bytes_in_use();
  region subject{first_device, 16 * unit, spilled(3 * unit, &cache)};
  subject.commit(0, 5 * unit);
  CHECK(places_in(subject, 5) == "dddhh");
  subject.commit(5 * unit, unit);
  CHECK(places_in(subject, 6) == "dddhhh");
  // Elsewhere other programs use the device.
  CHECK(bytes_in_use() - before == 3 * unit);
  write_tags(subject, 0, 6, 1, stream);
  check_tags(subject, 0, 6, 1, stream);
  for (const chunk_view& each : subject.chunks()) {
    CHECK(each.device == first_device);
    CHECK(get_access(each.address, first_device) == access_right::read_write);
  }
  subject.trim(2 * unit, stream);
  subject.trim(0, stream);
  subject.commit(0, 4 * unit);
  CHECK(places_in(subject, 4) == "dddh");
}

TEST_CASE("region: a chunk made ahead counts in the budget") {
  REQUIRE_HOST_CHUNKS();
  const std::size_t unit = granule();
  region subject{first_device, 16 * unit, spilled(2 * unit)};
  subject.commit(0, unit);
  subject.prepare(4 * unit, prefetch_level::mapped);
  CHECK(subject.cancel_or_wait() <= unit);
  subject.commit(unit, unit);
  CHECK(places_in(subject, 2) == "dd");
  subject.prepare(2 * unit, prefetch_level::created);
  subject.commit(2 * unit, 3 * unit);
  CHECK(places_in(subject, 5) == "ddhhh");
}

TEST_CASE("region: what spilled stays where it is when the region moves or is trimmed") {
  REQUIRE_HOST_CHUNKS();
  const std::size_t unit = granule();
  const stream stream;
  region subject{first_device, 8 * unit, spilled(2 * unit)};
  subject.commit(0, 8 * unit);
  write_tags(subject, 0, 8, 1, stream);
  subject.extend(64 * unit, 9 * unit);
  check_tags(subject, 0, 8, 1, stream);
  CHECK(places_in(subject, 9) == "ddhhhhhhh");
  subject.trim(4 * unit, stream, tail_chunk::replace);
  CHECK(places_in(subject, 4) == "ddhh");
  check_tags(subject, 0, 4, 1, stream);
}

TEST_CASE("region: bytes move to memory of the host and back") {
  REQUIRE_HOST_CHUNKS();
  const std::size_t unit = granule();
  const stream stream;
  chunk_cache cache;
  region subject{first_device, 16 * unit, {.cache = &cache}};
  for (std::size_t i = 0; i < 4; ++i) subject.commit(i * unit, unit);
  write_tags(subject, 0, 4, 1, stream);
  const std::size_t before = bytes_in_use();
  CHECK(subject.move_range(unit, 2 * unit, memory_location::host(), stream) == 2 * unit);
  CHECK(bytes_in_use() + 2 * unit == before);
  CHECK(places_in(subject, 4) == "dhhd");
  check_tags(subject, 0, 4, 1, stream);
  write_tags(subject, 0, 4, 2, stream);
  CHECK(subject.move_range(0, 4 * unit, first_device, stream) == 2 * unit);
  CHECK(places_in(subject, 4) == "dddd");
  check_tags(subject, 0, 4, 2, stream);
}

TEST_CASE("region: devices that were granted access use what spilled") {
  REQUIRE_HOST_CHUNKS();
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach each other");
  const std::size_t unit = granule();
  const stream stream;
  region subject{peer, 16 * unit, spilled(unit)};
  subject.grant(first_device);
  subject.commit(0, 3 * unit);
  write_tags(subject, 0, 3, 1, stream);
  const hipvmm::stream other{peer};
  check_tags(subject, 0, 3, 1, other);
  subject.retire();
  drain_retired_memory();
}

TEST_CASE("chunk_cache: memory of the host is not kept") {
  REQUIRE_HOST_CHUNKS();
  chunk_cache cache{64 * MiB};
  physical_chunk chunk{memory_location::host(), granule(), first_device};
  CHECK(chunk.location().is_host());
  CHECK(chunk.device() == first_device);
  physical_chunk moved{std::move(chunk)};
  CHECK(moved.location().is_host());
  cache.recycle(std::move(moved));
  CHECK(cache.statistics().chunks == 0);
}

TEST_CASE("growable_device_vector: grows beyond its budget of the device") {
  REQUIRE_HOST_CHUNKS();
  const growth_options options{.max_bytes = 64 * MiB, .chunks = spilled(4 * MiB)};
  growable_device_vector<int> vector{first_device, options};
  const stream stream;
  vector.resize(5'000'000, 7, stream);
  CHECK(vector.copy_to_host(stream) == std::vector<int>(5'000'000, 7));
  std::size_t on_device = 0;
  for (const chunk_view& each : vector.chunks())
    if (!each.location.is_host()) on_device += each.bytes;
  CHECK(on_device == 4 * MiB);
  vector.resize(100, stream);
  vector.shrink_to_fit(stream);
  CHECK(vector.copy_to_host(stream) == std::vector<int>(100, 7));
}

#define REQUIRE_HOST_NODES()                                                    \
  do {                                                                          \
    const capability known = capability_of(first_device);                       \
    if (!known.has(trait::host_node_chunks)) {                                  \
      MESSAGE("skipped: ", std::string{known.reason(trait::host_node_chunks)}); \
      return;                                                                   \
    }                                                                           \
  } while (false)

constexpr memory_location node_0 = memory_location::host_node(0);

TEST_CASE("chunk_placement: what is beyond the budget is the host or a node of it") {
  CHECK_THROWS_AS(static_cast<void>(chunk_placement::spill(granule(), first_device)),
                  std::invalid_argument);
  CHECK(chunk_placement::spill(granule()).beyond_budget() == memory_location::host());
  CHECK(chunk_placement::spill(granule(), node_0).beyond_budget() == node_0);
  CHECK(node_0.is_host());
  CHECK(node_0 != memory_location::host());
  CHECK(node_0 != memory_location::host_node(1));
  CHECK_FALSE(memory_location::host().node());
}

TEST_CASE("region: a release without chunks on nodes of the host says so") {
  const capability known = capability_of(first_device);
  if (known.has(trait::host_node_chunks)) return;
  const region_options options{.placement = chunk_placement::spill(granule(), node_0)};
  const std::string& reason = known.reason(trait::host_node_chunks);
  CHECK_THROWS_WITH_AS((region{first_device, 8 * granule(), options}),
                       doctest::Contains(reason.c_str()), unsupported);
  region plain{first_device, 8 * granule()};
  plain.commit(0, granule());
  const stream stream;
  CHECK_THROWS_WITH_AS(plain.move_range(0, granule(), node_0, stream),
                       doctest::Contains(reason.c_str()), unsupported);
}

TEST_CASE("region: growth goes on in memory of the node that is named") {
  REQUIRE_HOST_NODES();
  const std::size_t unit = granule();
  const stream stream;
  region target{first_device, 8 * unit, {.placement = chunk_placement::spill(unit, node_0)}};
  target.commit(0, 2 * unit);
  write_tags(target, 0, 2, 1, stream);
  REQUIRE(target.chunk_count() == 2);
  CHECK(target.chunks()[0].location == first_device);
  CHECK(target.chunks()[1].location == node_0);
  target.extend(16 * unit, 3 * unit);
  CHECK(target.chunks()[2].location == node_0);
  check_tags(target, 0, 2, 1, stream);
  if (capability_of(first_device).has(trait::retains_chunks))
    CHECK(retain_chunk(target.chunks()[1].address).chunk.location() == node_0);
}

TEST_CASE("region: bytes move to a node of the host, to the host and back") {
  REQUIRE_HOST_NODES();
  const std::size_t unit = granule();
  const stream stream;
  region target{first_device, 8 * unit};
  target.commit(0, unit);
  target.commit(unit, unit);
  write_tags(target, 0, 2, 1, stream);
  for (const memory_location to :
       {node_0, memory_location::host(), memory_location{first_device}}) {
    CHECK(target.move_range(0, 2 * unit, to, stream) == 2 * unit);
    CHECK(target.chunks().back().location == to);
    check_tags(target, 0, 2, 1, stream);
  }
}

TEST_CASE("region: a node that the system lacks is named, and nothing moves") {
  REQUIRE_HOST_NODES();
  const std::size_t unit = granule();
  const stream stream;
  region target{first_device, 8 * unit};
  target.commit(0, unit);
  write_tags(target, 0, 1, 1, stream);
  CHECK_THROWS_WITH_AS(target.move_range(0, unit, memory_location::host_node(4095), stream),
                       doctest::Contains("NUMA node 4095 of the host: name a node"), hip_error);
  CHECK(target.chunks().front().location == first_device);
  check_tags(target, 0, 1, 1, stream);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
