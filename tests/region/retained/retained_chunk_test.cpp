// SPDX-License-Identifier: MIT
#include <hipvmm/region/retained_chunk.hpp>

#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "region/region_test.hpp"
#include "region/retained/foreign_memory.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

std::string text_of(const void* address) {
  char text[32];
  std::snprintf(text, sizeof(text), "%p", address);
  return text;
}

/// Adopts the chunks of `memory` at the same offsets.
void adopt_all(region& target, const foreign_memory& memory) {
  for (retained_chunk& each : retain_chunks(memory.base(), memory.bytes())) {
    const std::size_t offset = static_cast<std::size_t>(static_cast<const char*>(each.address) -
                                                        static_cast<const char*>(memory.base()));
    target.adopt(offset, std::move(each.chunk));
  }
}

TEST_CASE("retain_chunk: any byte of a chunk leads to all of it") {
  HIPVMM_REQUIRE_RETAINING();
  const foreign_memory memory{{1, 2, 1}};
  const std::size_t unit = granule();
  for (const std::size_t byte : {unit, unit + 1, 2 * unit, 3 * unit - 1}) {
    CAPTURE(byte);
    const retained_chunk found = retain_chunk(memory.at(byte));
    CHECK(found.address == memory.at(unit));
    CHECK(found.chunk.bytes() == 2 * unit);
    CHECK(found.chunk.device() == first_device);
    CHECK(found.chunk.location() == first_device);
    CHECK(found.chunk.shared());
    CHECK(found.chunk.creation_index() == 0);
  }
  CHECK(retain_chunk(memory.at(0)).chunk.bytes() == unit);
  CHECK(retain_chunk(memory.at(4 * unit - 1)).address == memory.at(3 * unit));
}

TEST_CASE("retain_chunks: lists the chunks that hold a range") {
  HIPVMM_REQUIRE_RETAINING();
  const foreign_memory memory{{1, 2, 1}};
  const std::size_t unit = granule();
  const std::vector<retained_chunk> inner = retain_chunks(memory.at(2 * unit), unit + 1);
  REQUIRE(inner.size() == 2);
  CHECK(inner[0].address == memory.at(unit));
  CHECK(inner[0].chunk.bytes() == 2 * unit);
  CHECK(inner[1].address == memory.at(3 * unit));
  CHECK(retain_chunks(memory.base(), memory.bytes()).size() == 3);
  CHECK(retain_chunks(memory.at(unit - 1), 1).size() == 1);
}

TEST_CASE("retain_chunk: a region shows the memory at addresses of its own") {
  HIPVMM_REQUIRE_RETAINING();
  const stream stream;
  const foreign_memory memory{{1, 1}};
  write_tags(memory, 0, 2, 1, stream);
  region target{first_device, 8 * granule()};
  adopt_all(target, memory);
  check_tags(target, 0, 2, 1, stream);
  write_tags(target, 0, 1, 2, stream);
  check_tags(memory, 0, 1, 2, stream);
  check_tags(memory, 1, 2, 1, stream);
}

TEST_CASE("retain_chunk: memory stays when its owner ends first") {
  HIPVMM_REQUIRE_RETAINING();
  const stream stream;
  std::optional<region> target{std::in_place, first_device, 8 * granule()};
  {
    foreign_memory memory{{1, 1}};
    write_tags(memory, 0, 2, 1, stream);
    adopt_all(*target, memory);
    stream.synchronize();
    memory.end();
  }
  check_tags(*target, 0, 2, 1, stream);
  write_tags(*target, 0, 2, 2, stream);
  check_tags(*target, 0, 2, 2, stream);
}

TEST_CASE("retain_chunk: the owner's memory stays when the region ends first") {
  HIPVMM_REQUIRE_RETAINING();
  const stream stream;
  const foreign_memory memory{{1, 1}};
  write_tags(memory, 0, 2, 1, stream);
  {
    region target{first_device, 8 * granule()};
    adopt_all(target, memory);
    check_tags(target, 0, 2, 1, stream);
    // Neither is it replaced by a smaller one, which would part the two.
    CHECK(target.trim(granule() + 1, stream, tail_chunk::replace) == 0);
    CHECK(target.decommit(granule(), granule()) == granule());
  }
  check_tags(memory, 0, 2, 1, stream);
}

TEST_CASE("retain_chunk: memory of another device") {
  HIPVMM_REQUIRE_RETAINING();
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream{peer};
  const foreign_memory memory{{1, 1}, peer};
  write_tags(memory, 0, 2, 1, stream);
  retained_chunk found = retain_chunk(memory.at(granule()));
  CHECK(found.chunk.device() == peer);
  region wrong{first_device, 8 * granule()};
  CHECK_THROWS_AS(wrong.adopt(0, std::move(found.chunk)), std::invalid_argument);
  region target{peer, 8 * granule()};
  target.grant(first_device);
  target.adopt(granule(), std::move(found.chunk));
  const hipvmm::stream own;
  check_tags(target, 1, 2, 1, own);
}

TEST_CASE("retain_chunk: what the owner can export can be exported again") {
  HIPVMM_REQUIRE_RETAINING();
  const foreign_memory closed{{1}};
  CHECK(retain_chunk(closed.base()).chunk.shareable() == handle_type::none);
  if (!capability_of(first_device).has(trait::shares_chunks)) return;
  const foreign_memory open{{1}, first_device, hipMemHandleTypePosixFileDescriptor};
  retained_chunk found = retain_chunk(open.base());
  CHECK(found.chunk.shareable() == handle_type::posix_fd);
  CHECK(shareable_handle{found.chunk}.bytes() == granule());
}

TEST_CASE("retain_chunk: memory of a region of one's own") {
  HIPVMM_REQUIRE_RETAINING();
  const stream stream;
  region source{first_device, 8 * granule()};
  source.commit(0, 2 * granule());
  write_tags(source, 0, 2, 1, stream);
  const retained_chunk found = retain_chunk(advance(source.base(), granule()));
  CHECK(found.address == source.base());
  CHECK(found.chunk.get() == source.chunks().front().handle);
}

TEST_CASE("retain_chunk: nobody gets a retained chunk that its region has released") {
  HIPVMM_REQUIRE_RETAINING();
  const stream stream;
  chunk_cache cache{8 * granule()};
  const region_options options{.cache = &cache};
  region source{first_device, 8 * granule(), options};
  source.commit(0, granule());
  write_tags(source, 0, 1, 1, stream);
  {
    region target{first_device, 8 * granule(), options};
    target.adopt(0, retain_chunk(source.base()).chunk);
    source.decommit(0, granule());
    source.commit(0, granule());
    write_tags(source, 0, 1, 2, stream);
    check_tags(target, 0, 1, 1, stream);
  }
  // A chunk without another owner is kept as any other.
  CHECK(cache.statistics().dropped == 2);
  source.decommit(0, granule());
  CHECK(cache.statistics().bytes == granule());
  // So is a chunk that was retained, and is no longer.
  source.commit(0, granule());
  {
    const retained_chunk ended = retain_chunk(source.base());
    CHECK(cache.statistics().bytes == 0);
  }
  source.decommit(0, granule());
  CHECK(cache.statistics().bytes == granule());
}

TEST_CASE("retain_chunk: a chunk with the handle of one that was given away is kept as any other") {
  HIPVMM_REQUIRE_RETAINING();
  hipMemGenericAllocationHandle_t given = nullptr;
  {
    const foreign_memory memory{{1}};
    given = retain_chunk(memory.base()).chunk.release();
  }
  REQUIRE(hipMemRelease(given) == hipSuccess);
  physical_chunk next{first_device, granule()};
  if (next.get() != given) {
    MESSAGE("skipped: HIP gave another handle");
    return;
  }
  chunk_cache cache{granule()};
  cache.recycle(std::move(next));
  CHECK(cache.statistics().bytes == granule());
}

TEST_CASE("retain_chunk: an address without a chunk is refused, and named") {
  HIPVMM_REQUIRE_RETAINING();
  const int local = 0;
  const device_allocation plain{first_device, 4096};
  const address_reservation reserved{granule()};
  const foreign_memory memory{{1}};
  const void* const behind = memory.at(granule());
  for (const void* each : {static_cast<const void*>(&local), static_cast<const void*>(plain.get()),
                           static_cast<const void*>(reserved.get()), behind}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunk(each)),
                         doctest::Contains(text_of(each).c_str()), std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunk(nullptr)), doctest::Contains("at 0x0 is no"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunks(memory.base(), 0)),
                       doctest::Contains("name at least one"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunks(memory.base(), SIZE_MAX)),
                       doctest::Contains("past the end of all addresses"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunks(memory.base(), granule() + 1)),
                       doctest::Contains(text_of(behind).c_str()), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
