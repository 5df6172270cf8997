// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "mr/pool/pool_limit.hpp"
#include "region/region_test.hpp"

// Blocks of a pool that suspend() treats unlike the rest.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("sleep: blocks of a pool are zeros, dropped, or stay with their chunks") {
  const memory_tag tag;
  const stream stream{first_device};
  mr::pool_options options = at_most(128 * MiB);
  options.tag = tag;
  mr::vmm_pool_resource pool{first_device, options};
  constexpr std::size_t sizes[] = {1000, 5 * MiB + 512, 3 * MiB, 16 * MiB};
  std::vector<void*> blocks;
  for (const std::size_t bytes : sizes) {
    blocks.push_back(pool.allocate(stream, bytes));
    fill_async(stream, blocks.back(), static_cast<unsigned char>(blocks.size()), bytes);
  }
  const auto has = [&](std::size_t which, unsigned char value) {
    const auto found = read_bytes(stream, blocks[which], sizes[which]);
    return found == std::vector<unsigned char>(sizes[which], value);
  };
  const bool may_stay = !capability_of(first_device).needs(quirk::re_reserve);
  suspend_options parts{
      .ranges = {{blocks[1], sizes[1], keep::zeros}, {blocks[2], sizes[2], keep::nothing}}};
  if (may_stay) parts.ranges.push_back({blocks[3], sizes[3], keep::mapped});
  const std::size_t before = first_device.free_memory();
  const std::size_t released = suspend(tag, keep::contents, parts);
  const tag_statistics now = tag.statistics();
  CHECK(first_device.free_memory() >= before + released);
  CHECK(now.bytes_asleep == released);
  CHECK((now.bytes_mapped != 0) == may_stay);
  // The part of the last block in chunks with other blocks is copied.
  CHECK(now.bytes_on_host + now.bytes_mapped >= sizes[0] + sizes[3]);
  CHECK(now.bytes_on_host + now.bytes_mapped < sizes[0] + sizes[3] + 128 * KiB);
  CHECK(resume(tag) == released);
  CHECK(has(0, 1));
  CHECK(has(1, 0));
  CHECK(has(3, 4));
  // A block that was freed is no memory to be kept once its chunks are released.
  parts.ranges = {{blocks[3], sizes[3], keep::zeros}};
  pool.deallocate(stream, blocks[3], sizes[3]);
  if (may_stay) CHECK_THROWS_AS(suspend(tag, keep::nothing, parts), std::invalid_argument);
  CHECK_FALSE(tag.is_asleep());
  CHECK(has(0, 1));
  for (std::size_t i = 0; i < 3; ++i) pool.deallocate(stream, blocks[i], sizes[i]);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
