// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "region/region_test.hpp"

// A region reports its chunks, exports them and adopts those of others.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

region_options shareable() { return region_options{.shareable = handle_type::posix_fd}; }

/// Two chunks of a granule each from the base on, with tags, in 16 granules.
struct shared_region : region_of<16> {
  shared_region() : region_of{shareable()} {
    region.commit(0, unit);
    region.commit(unit, unit);
    write_tags(region, 0, 2, 1, stream);
  }
};

void adopt_all(region& target, const std::vector<exported_chunk>& exported) {
  for (const exported_chunk& each : exported)
    target.adopt(each.offset, import_chunk(each.handle, first_device));
}

std::string text_of_invalid(region& target, std::size_t offset, physical_chunk&& chunk) {
  return text_thrown_by<std::invalid_argument>([&] { target.adopt(offset, std::move(chunk)); });
}

TEST_CASE_FIXTURE(shared_region, "region: chunks are listed by offset, with all that names them") {
  const std::vector<chunk_view> listed = region.chunks();
  REQUIRE(listed.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(listed[i].offset == i * unit);
    CHECK(listed[i].bytes == unit);
    CHECK(listed[i].address == advance(region.base(), i * unit));
    CHECK(listed[i].device == first_device);
    CHECK(listed[i].handle != nullptr);
  }
  CHECK(listed[0].handle != listed[1].handle);
  CHECK(listed[0].serial != 0);
  CHECK(listed[0].serial < listed[1].serial);
  CHECK(hipvmm::region{std::move(region)}.chunks().size() == 2);
  CHECK(region.chunks().empty());
}

TEST_CASE_FIXTURE(shared_region, "region: a chunk that takes another's place has a new serial") {
  const std::uint64_t last = region.chunks()[1].serial;
  region.decommit(unit, unit);
  region.commit(unit, unit);
  CHECK(region.chunks()[1].serial > last);
  CHECK(region.export_chunks(last).size() == 1);
}

TEST_CASE_FIXTURE(shared_region, "region: a chunk that moves is listed anew") {
  if (!region.can_move_chunks() || !takes_any_layout()) return;
  const std::uint64_t last = region.chunks()[1].serial;
  region.move_chunk(0, 8 * unit);
  const std::vector<exported_chunk> moved = region.export_chunks(last);
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].offset == 8 * unit);
  region.end_move(0);
}

TEST_CASE_FIXTURE(shared_region, "region: rebase lists all chunks with their new offsets") {
  const std::uint64_t last = region.chunks()[1].serial;
  region.decommit(0, unit);
  region.rebase(unit, 16 * unit, 0);
  const std::vector<exported_chunk> shifted = region.export_chunks(last);
  REQUIRE(shifted.size() == 1);
  CHECK(shifted[0].offset == 0);
}

TEST_CASE_FIXTURE(shared_region, "region: extend keeps the serials of what stays at its offset") {
  const std::uint64_t last = region.chunks()[1].serial;
  region.extend(32 * unit, 3 * unit);
  const std::vector<exported_chunk> added = region.export_chunks(last);
  REQUIRE(added.size() == 1);
  CHECK(added[0].offset == 2 * unit);
}

TEST_CASE_FIXTURE(shared_region, "region: a chunk made ahead is exported once it is backed") {
  region.prepare(unit, prefetch_level::mapped);
  region.cancel_or_wait();
  const std::uint64_t last = region.chunks().back().serial;
  CHECK(region.export_chunks(last).empty());
  region.commit(2 * unit, unit);
  CHECK(region.export_chunks(last).size() == 1);
}

TEST_CASE_FIXTURE(shared_region, "region: only chunks made to be shared are exported") {
  hipvmm::region plain{first_device, unit};
  CHECK(plain.export_chunks().empty());
  plain.commit(0, unit);
  CHECK_THROWS_WITH_AS(static_cast<void>(plain.export_chunks()),
                       doctest::Contains("set region_options::shareable"), std::invalid_argument);
}

TEST_CASE_FIXTURE(shared_region, "region: trim replaces no chunk that another process may use") {
  region.commit(2 * unit, 8 * unit);
  const auto handle_of_last = [&] { return region.chunks().back().handle; };
  const auto* const before = handle_of_last();
  static_cast<void>(region.export_chunks());
  CHECK(region.trim(3 * unit, stream, tail_chunk::replace) == 0);
  CHECK(handle_of_last() == before);
}

TEST_CASE_FIXTURE(shared_region, "region: what cannot be adopted stays the caller's") {
  const auto make = [&] { return physical_chunk{first_device, unit}; };
  physical_chunk chunk = make();
  CHECK(text_of_invalid(region, unit, std::move(chunk)).find("backed already") !=
        std::string::npos);
  CHECK(text_of_invalid(region, unit / 2, std::move(chunk)).find("multiples") != std::string::npos);
  CHECK(text_of_invalid(region, 2 * unit, physical_chunk{}).find("empty") != std::string::npos);
  CHECK_THROWS_AS(region.adopt(16 * unit, std::move(chunk)), std::out_of_range);
  CHECK(!chunk.empty());
  if (device_count() > 1) {
    physical_chunk other{second_device, granularity_of(second_device).minimum};
    CHECK(text_of_invalid(region, 2 * unit, std::move(other))
              .find("device 1, and the region takes chunks of device 0") != std::string::npos);
    CHECK(!other.empty());
  }
  CHECK(region.chunk_count() == 2);
  region.adopt(2 * unit, std::move(chunk));
  CHECK(chunk.empty());
  CHECK(region.committed_from(0) == 3 * unit);
  write_tag(region, 2, 1, stream);
  check_tags(region, 0, 3, 1, stream);
}

TEST_CASE_FIXTURE(shared_region, "region: a chunk is adopted where another was made ahead") {
  region.prepare(unit, prefetch_level::mapped);
  region.cancel_or_wait();
  region.adopt(2 * unit, physical_chunk{first_device, unit});
  CHECK(region.prepared_bytes() == 0);
  CHECK(region.committed_bytes() == 3 * unit);
}

// The first descriptor that the child inherits.
constexpr int first_inherited = 100;

HIPVMM_CHILD("region: adopts three chunks in two steps and writes to them") {
  const std::size_t unit = granule();
  const stream stream;
  region mirror{first_device, 16 * unit};
  for (int i = 0; i < 3; ++i)
    mirror.adopt(static_cast<std::size_t>(i) * unit,
                 import_chunk(shareable_handle{first_inherited + i, unit}, first_device));
  check_tags(mirror, 0, 3, 1, stream);
  write_tags(mirror, 0, 3, 2, stream);
}

TEST_CASE_FIXTURE(shared_region, "region: another process uses chunks at the same offsets") {
  std::vector<exported_chunk> sent = region.export_chunks();
  REQUIRE(sent.size() == 2);
  region.commit(2 * unit, unit);
  write_tag(region, 2, 1, stream);
  for (exported_chunk& each : region.export_chunks(sent.back().serial))
    sent.push_back(std::move(each));
  REQUIRE(sent.size() == 3);
  std::vector<inherited_descriptor> descriptors;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CHECK(sent[i].offset == i * unit);
    CHECK(sent[i].handle.bytes() == unit);
    descriptors.push_back({sent[i].handle.get(), first_inherited + static_cast<int>(i)});
  }
  check_child("region: adopts three chunks in two steps and writes to them", {}, descriptors);
  check_tags(region, 0, 3, 2, stream);
}

TEST_CASE("growable_device_vector: another range shows the vector's elements as it grows") {
  const growth_options options{.max_bytes = 64 * MiB,
                               .chunks = {.shareable = handle_type::posix_fd}};
  growable_device_vector<int> vector{first_device, options};
  const stream stream;
  region mirror{first_device, options.max_bytes};
  std::uint64_t last = 0;
  for (int round = 1; round <= 3; ++round) {
    vector.resize(static_cast<std::size_t>(round) * 1'000'000, round, stream);
    stream.synchronize();
    const std::vector<exported_chunk> added = vector.export_chunks(last);
    CHECK(!added.empty());
    adopt_all(mirror, added);
    last = added.back().serial;
    REQUIRE(mirror.committed_bytes() == vector.capacity() * sizeof(int));
    std::vector<int> seen(vector.size());
    copy(stream, seen.data(), mirror.base(), seen.size() * sizeof(int));
    CHECK(seen == vector.copy_to_host(stream));
  }
  CHECK(vector.chunks().size() == mirror.chunk_count());
}

TEST_CASE("growable_device_vector: memory of a resource has no chunks") {
  mr::hip_resource resource{first_device};
  growable_device_vector<int> vector{first_device, {.resource = &resource}};
  vector.reserve(100);
  CHECK_THROWS_WITH_AS(static_cast<void>(vector.chunks()),
                       doctest::Contains("growth_options::resource"), unsupported);
  CHECK_THROWS_AS(static_cast<void>(vector.export_chunks()), unsupported);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
