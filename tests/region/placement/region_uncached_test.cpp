// SPDX-License-Identifier: MIT
// Regions of chunks that no cache keeps.
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/region/retained_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

const std::string& why_none() { return capability_of(first_device).reason(trait::uncached_chunks); }

#define REQUIRE_UNCACHED_CHUNKS()                                   \
  do {                                                              \
    if (!capability_of(first_device).has(trait::uncached_chunks)) { \
      MESSAGE("skipped: ", std::string{why_none()});                \
      return;                                                       \
    }                                                               \
  } while (false)

region_options uncached(chunk_cache* cache = nullptr, handle_type shareable = handle_type::none) {
  return region_options{.shareable = shareable, .cache = cache, .memory = chunk_memory::uncached};
}

bool are_all(const region& target, chunk_memory memory) {
  const std::vector<chunk_view> chunks = target.chunks();
  return std::all_of(chunks.begin(), chunks.end(),
                     [memory](const chunk_view& each) { return each.memory == memory; });
}

TEST_CASE("region: a release without uncached chunks says so before anything is made") {
  if (capability_of(first_device).has(trait::uncached_chunks)) return;
  CHECK_THROWS_WITH_AS((region{first_device, granule(), uncached()}),
                       doctest::Contains(why_none().c_str()), unsupported);
  const growth_options options{.chunks = uncached()};
  CHECK_THROWS_AS((growable_device_vector<int>{first_device, options}), unsupported);
  CHECK_THROWS_AS((physical_chunk{first_device, granule(), chunk_memory::uncached}), hip_error);
}

TEST_CASE("region: all of its chunks are uncached") {
  REQUIRE_UNCACHED_CHUNKS();
  const std::size_t unit = granule();
  const stream stream;
  region target{first_device, 16 * unit, uncached()};
  target.commit(0, unit);
  target.commit(unit, unit);
  target.prepare(unit, prefetch_level::created);
  detail::wait_for_background_tasks();
  target.commit(2 * unit, unit);
  write_tags(target, 0, 3, 1, stream);
  CHECK(target.chunk_count() == 3);
  CHECK(are_all(target, chunk_memory::uncached));
  target.extend(64 * unit, 4 * unit);
  CHECK(are_all(target, chunk_memory::uncached));
  check_tags(target, 0, 3, 1, stream);
  region plain{first_device, unit};
  plain.commit(0, unit);
  CHECK(are_all(plain, chunk_memory::standard));
}

TEST_CASE("region: uncached chunks are never kept for others") {
  REQUIRE_UNCACHED_CHUNKS();
  const std::size_t unit = granule();
  chunk_cache cache{GiB};
  region target{first_device, 4 * unit, uncached(&cache)};
  region plain{first_device, 4 * unit, {.cache = &cache}};
  plain.commit(0, unit);
  plain.decommit(0, unit);
  CHECK(cache.statistics().bytes == unit);
  target.commit(0, unit);
  CHECK(are_all(target, chunk_memory::uncached));
  target.decommit(0, unit);
  CHECK(cache.statistics().bytes == unit);
  drain_retired_memory();
}

TEST_CASE("region: what takes an uncached chunk's place is uncached") {
  REQUIRE_UNCACHED_CHUNKS();
  HIPVMM_REQUIRE_ANY_LAYOUT();
  const std::size_t unit = granule();
  const stream stream;
  // The region makes others.
  region target{first_device, 16 * unit};
  target.adopt(0, physical_chunk{first_device, 8 * unit, chunk_memory::uncached});
  write_tags(target, 0, 2, 1, stream);
  CHECK(target.trim(2 * unit, stream, tail_chunk::replace) == 6 * unit);
  CHECK(are_all(target, chunk_memory::uncached));
  check_tags(target, 0, 2, 1, stream);
  if (const auto peer = peer_of(first_device)) {
    target.grant(*peer);
    CHECK(target.move_range(0, 2 * unit, *peer, stream) == 2 * unit);
    CHECK(are_all(target, chunk_memory::uncached));
    CHECK(target.chunks().front().device == *peer);
    check_tags(target, 0, 2, 1, stream);
  }
  CHECK_THROWS_AS(target.move_range(0, 2 * unit, memory_location::host(), stream), unsupported);
  check_tags(target, 0, 2, 1, stream);
}

TEST_CASE("region: uncached chunks do not spill to the host") {
  REQUIRE_UNCACHED_CHUNKS();
  region_options options = uncached();
  options.placement = chunk_placement::spill(granule());
  CHECK_THROWS_AS((region{first_device, 4 * granule(), options}), unsupported);
}

TEST_CASE("region: uncached stripes") {
  REQUIRE_UNCACHED_CHUNKS();
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  region_options options = uncached();
  options.placement = chunk_placement::striped({first_device, peer}, granule());
  region target{first_device, 8 * granule(), options};
  target.commit(0, 2 * granule());
  CHECK(target.chunk_count() == 2);
  CHECK(are_all(target, chunk_memory::uncached));
}

TEST_CASE("region: uncached chunks are exported, imported and retained") {
  REQUIRE_UNCACHED_CHUNKS();
  const capability known = capability_of(first_device);
  const std::size_t unit = granule();
  const stream stream;
  region target{first_device, 4 * unit, uncached(nullptr, handle_type::posix_fd)};
  target.commit(0, unit);
  write_tags(target, 0, 1, 1, stream);
  if (known.has(trait::shares_chunks)) {
    region mirror{first_device, 4 * unit};
    mirror.adopt(0, import_chunk(target.export_chunks().front().handle, first_device));
    check_tags(mirror, 0, 1, 1, stream);
  }
  if (known.has(trait::retains_chunks))
    CHECK(retain_chunk(target.base()).chunk.memory() == chunk_memory::uncached);
}

TEST_CASE("growable_device_vector: a vector of uncached memory grows") {
  REQUIRE_UNCACHED_CHUNKS();
  const stream stream;
  growable_device_vector<int> flags{first_device, {.chunks = uncached()}};
  flags.append(std::vector<int>{1, 2, 3}, stream);
  CHECK(flags.copy_to_host(stream) == std::vector<int>{1, 2, 3});
  CHECK(flags.chunks().front().memory == chunk_memory::uncached);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
