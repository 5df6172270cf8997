// SPDX-License-Identifier: MIT
// Blocks of a pool, and ranges of a region, that another process maps.
#include <hipvmm/ipc/imported_blocks.hpp>

#include <hipvmm/ipc/export_kind.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include "ipc/ipc_test.hpp"
#include "support/device_bytes.hpp"

namespace hipvmm::test {
namespace {

mr::pool_options shareable_pool() {
  return mr::pool_options{.maximum_bytes = 256 * MiB, .shareable = handle_type::posix_fd};
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("export_kind_of: what an export of the device is") {
  region exporting{first_device, granule(), shareable_chunks()};
  exporting.commit(0, granule());
  const std::vector<exported_chunk> chunks = exporting.export_chunks();
  CHECK(kind_of(chunks.front().handle) == export_kind_of(first_device));
  CHECK_THROWS_AS(static_cast<void>(export_kind_of(device_ref{99})), std::invalid_argument);
}

/// A region of four chunks with tags, and the addresses for them here.
struct exporting_region {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  hipvmm::region region{first_device, 16 * unit, shareable_chunks()};
  imported_blocks seen{first_device, 16 * unit};

  exporting_region() {
    for (std::size_t i = 0; i < 4; ++i) region.commit(i * unit, unit);
    write_tags(region, 0, 4, 1, stream);
  }

  std::string refusal(exported_range block) {
    return text_thrown_by<std::invalid_argument>([&] { return seen.add(std::move(block)); });
  }
};

TEST_CASE_FIXTURE(exporting_region, "region: export_range has the chunks that hold the bytes") {
  const auto offsets = [&](std::size_t offset, std::size_t bytes) {
    const exported_range range = region.export_range(offset, bytes);
    CHECK(range.offset == offset);
    CHECK(range.bytes == bytes);
    std::vector<std::size_t> result;
    for (const exported_chunk& each : range.chunks) {
      result.push_back(each.offset / unit);
      CHECK(each.handle.bytes() == unit);
      CHECK(each.serial == region.chunks()[each.offset / unit].serial);
    }
    return result;
  };
  using list = std::vector<std::size_t>;
  CHECK(offsets(0, 1) == list{0});
  CHECK(offsets(unit - 1, 1) == list{0});
  CHECK(offsets(unit - 1, 2) == list{0, 1});
  CHECK(offsets(unit, unit) == list{1});
  CHECK(offsets(1, 4 * unit - 1) == list{0, 1, 2, 3});
  CHECK_THROWS_AS(static_cast<void>(region.export_range(0, 0)), std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(region.export_range(3 * unit, 2 * unit)),
                       doctest::Contains("are backed"), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(region.export_range(16 * unit, 1)), std::out_of_range);
}

TEST_CASE_FIXTURE(exporting_region,
                  "imported_blocks: a block over several chunks is one range of addresses") {
  const imported_block block = seen.add(region.export_range(unit / 2, 2 * unit));
  CHECK(block.bytes() == 2 * unit);
  CHECK(seen.chunks().size() == 3);
  CHECK(read_bytes(stream, block.data(), block.bytes()) ==
        read_bytes(stream, advance(region.base(), unit / 2), 2 * unit));
  // Bytes written here are seen there.
  const auto bytes = pattern(unit, 9);
  write_bytes(stream, block.data(), bytes);
  CHECK(read_bytes(stream, advance(region.base(), unit / 2), unit) == bytes);
}

TEST_CASE_FIXTURE(exporting_region, "imported_blocks: a chunk is mapped once for all its blocks") {
  const std::size_t before = open_descriptors();
  std::vector<imported_block> blocks;
  for (std::size_t i = 0; i < 5; ++i) blocks.push_back(seen.add(region.export_range(i * 100, 100)));
  CHECK(seen.chunks().size() == 1);
  CHECK(advance(blocks[0].data(), 400) == blocks[4].data());
  blocks.clear();
  CHECK(seen.chunks().size() == 1);
  const imported_block again = seen.add(region.export_range(0, 100));
  CHECK(seen.release_unused() == 0);
  CHECK(!again.empty());
  CHECK(open_descriptors() <= before + 1);  // HIP's own for the chunk that is mapped
}

HIPVMM_CHILD("says the serial of a chunk") {
  region one{first_device, granule()};
  one.commit(0, granule());
  std::printf("serial %llu\n", static_cast<unsigned long long>(one.chunks()[0].serial));
}

TEST_CASE("region: chunks of two processes have different serials") {
  const auto serial = [] {
    const std::string output = run_child("says the serial of a chunk").output;
    const std::size_t at = output.find("serial ");
    REQUIRE(at != std::string::npos);
    return output.substr(at, output.find('\n', at) - at);
  };
  CHECK(serial() != serial());
}

// A thread of the parent may have its lock.
TEST_CASE_FIXTURE(exporting_region, "imported_blocks: a child of fork() is refused") {
  const imported_block block = seen.add(region.export_range(0, unit));
  const auto refuses = [](auto call) {
    try {
      call();
    } catch (const unsupported&) {
      return true;
    }
    return false;
  };
  CHECK(succeeds_in_forked_child([&] {
    return refuses([&] {
             static_cast<void>(seen.add({0, 1, {}}));
           }) &&
           refuses([&] { seen.release_unused(); }) &&
           refuses([&] { static_cast<void>(seen.chunks()); });
  }));
  CHECK(seen.chunks().size() == 1);
}

TEST_CASE_FIXTURE(exporting_region, "imported_blocks: chunks that no block uses can be released") {
  imported_block kept = seen.add(region.export_range(0, unit));
  imported_block ended = seen.add(region.export_range(unit, 2 * unit));
  ended = imported_block{};
  CHECK(ended.empty());
  CHECK(ended.data() == nullptr);
  CHECK(seen.release_unused() == 2 * unit);
  CHECK(seen.release_unused() == 0);
  CHECK(has_tag(region, 0, 1, stream));
  CHECK(read_bytes(stream, kept.data(), unit) == read_bytes(stream, region.base(), unit));
  const imported_block mapped_again = seen.add(region.export_range(2 * unit, 1));
  CHECK(seen.chunks().size() == 2);
}

TEST_CASE_FIXTURE(exporting_region, "imported_blocks: a chunk in another's place replaces it") {
  imported_block old = seen.add(region.export_range(unit, 100));
  region.decommit(unit, unit);
  region.commit(unit, unit);
  write_tag(region, 1, 7, stream);
  // Not while a block uses it.
  CHECK(refusal(region.export_range(unit, 100)).find("must not deallocate a block before") !=
        std::string::npos);
  CHECK(read_bytes(stream, old.data(), tag_bytes) == pattern(tag_bytes, 1001));
  old = imported_block{};
  const imported_block fresh = seen.add(region.export_range(unit, 100));
  CHECK(seen.chunks().size() == 1);
  CHECK(read_bytes(stream, fresh.data(), tag_bytes) == pattern(tag_bytes, 7001));
}

TEST_CASE_FIXTURE(exporting_region,
                  "imported_blocks: a larger chunk replaces all that is in its place") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  { const imported_block block = seen.add(region.export_range(unit, 3 * unit)); }
  imported_block last = seen.add(region.export_range(3 * unit, 1));
  region.decommit(unit, 3 * unit);
  region.commit(unit, 3 * unit);
  CHECK(refusal(region.export_range(unit, 1)).find("takes the place") != std::string::npos);
  CHECK(seen.chunks().size() == 3);
  last = imported_block{};
  const imported_block large = seen.add(region.export_range(unit, 1));
  REQUIRE(seen.chunks().size() == 1);
  CHECK(seen.chunks()[0].bytes == 3 * unit);
}

TEST_CASE_FIXTURE(exporting_region, "imported_blocks: what is no block is refused, nothing stays") {
  const std::size_t before = open_descriptors();
  const auto changed = [&](auto change) {
    exported_range block = region.export_range(unit / 2, 2 * unit);
    change(block);
    std::string text = refusal(std::move(block));
    CHECK(seen.chunks().empty());
    CHECK(open_descriptors() == before);
    return text;
  };
  const auto has = [](const std::string& text, const char* word) {
    CHECK_MESSAGE(text.find(word) != std::string::npos, text);
  };
  has(changed([](exported_range& block) { block.chunks.clear(); }), "no chunks");
  has(changed([](exported_range& block) { block.bytes = 0; }), "no bytes");
  has(changed([](exported_range& block) { block.chunks.erase(block.chunks.begin()); }),
      "begins before");
  has(changed([](exported_range& block) { block.chunks.erase(block.chunks.begin() + 1); }),
      "does not follow");
  has(changed([](exported_range& block) { block.chunks.pop_back(); }), "ends behind");
  has(changed([&](exported_range& block) { block.offset += unit; }), "ends before the block");
  has(changed([](exported_range& block) { block.chunks[1].handle = {}; }), "moved from");
  has(changed([&](exported_range& block) { block.bytes = unit / 2; }), "begins behind the block");
  has(changed([&](exported_range& block) {
        const std::size_t shift = unit / 2;
        block.offset += shift;
        for (exported_chunk& each : block.chunks) each.offset += shift;
      }),
      "multiples");
  exported_range outside = region.export_range(0, 1);
  outside.offset += 16 * unit;
  outside.chunks[0].offset += 16 * unit;
  CHECK_THROWS_AS(static_cast<void>(seen.add(std::move(outside))), std::out_of_range);
  exported_range far = region.export_range(0, 1);
  far.offset = far.chunks[0].offset = SIZE_MAX - unit + 1;
  CHECK_THROWS_AS(static_cast<void>(seen.add(std::move(far))), std::exception);
  CHECK(seen.chunks().empty());
}

TEST_CASE_FIXTURE(exporting_region,
                  "imported_blocks: blocks outlive it, and threads may end them") {
  std::vector<imported_block> blocks;
  {
    imported_blocks ending{first_device, 16 * unit};
    CHECK(ending.device() == first_device);
    for (std::size_t i = 0; i < 4; ++i)
      blocks.push_back(ending.add(region.export_range(i * unit, 1)));
    imported_blocks moved{std::move(ending)};
    CHECK_THROWS_AS(static_cast<void>(ending.chunks()), std::invalid_argument);
    CHECK(moved.chunks().size() == 4);
  }
  CHECK(read_bytes(stream, blocks[2].data(), tag_bytes) == pattern(tag_bytes, 1002));
  std::vector<std::future<void>> ends;
  for (imported_block& each : blocks)
    ends.push_back(std::async(std::launch::async,
                              [mine = std::move(each)]() mutable { mine = imported_block{}; }));
  for (auto& each : ends) each.get();
}

TEST_CASE("vmm_pool_resource: export_block has the block's bytes and chunks") {
  const stream stream;
  mr::vmm_pool_resource pool{first_device, shareable_pool()};
  imported_blocks seen{first_device, pool.statistics().address_bytes};
  for (const std::size_t bytes : {std::size_t{100}, granule() / 2, 3 * granule() + 5}) {
    CAPTURE(bytes);
    void* const block = pool.allocate(stream, bytes);
    const auto written = pattern(bytes, static_cast<std::uint32_t>(bytes));
    write_bytes(stream, block, written);
    exported_range range = pool.export_block(block);
    CHECK(range.bytes >= bytes);
    const imported_block imported = seen.add(std::move(range));
    CHECK(read_bytes(stream, imported.data(), bytes) == written);
    pool.deallocate(stream, block, bytes);
  }
  stream.synchronize();
}

TEST_CASE("vmm_pool_resource: only its own allocations are exported") {
  const stream stream;
  mr::vmm_pool_resource pool{first_device, shareable_pool()};
  void* const block = pool.allocate(stream, 1 << 20);
  const auto refused = [&](const void* pointer) {
    CHECK_THROWS_WITH_AS(static_cast<void>(pool.export_block(pointer)),
                         doctest::Contains("no allocation of this pool begins at"),
                         std::invalid_argument);
  };
  refused(nullptr);
  refused(&pool);
  refused(advance(block, 256));
  CHECK(!pool.export_block(block).chunks.empty());
  pool.deallocate(stream, block, 1 << 20);
  refused(block);
  mr::vmm_pool_resource plain{first_device};
  void* const other = plain.allocate(stream, 100);
  CHECK_THROWS_WITH_AS(static_cast<void>(plain.export_block(other)),
                       doctest::Contains("pool_options::shareable"), std::invalid_argument);
  plain.deallocate(stream, other, 100);
  stream.synchronize();
}

TEST_CASE("vmm_pool_resource: chunks and export_chunks follow its growth") {
  const stream stream;
  mr::vmm_pool_resource pool{first_device, shareable_pool()};
  CHECK(pool.chunks().empty());
  void* const first = pool.allocate(stream, granule());
  const std::vector<exported_chunk> begin = pool.export_chunks();
  REQUIRE(begin.size() == pool.chunks().size());
  REQUIRE(!begin.empty());
  CHECK(pool.export_chunks(begin.back().serial).empty());
  const std::size_t more = pool.statistics().reserved_current + granule();
  void* const second = pool.allocate(stream, more);
  CHECK(pool.export_chunks(begin.back().serial).size() == pool.chunks().size() - begin.size());
  std::size_t bytes = 0;
  for (const chunk_view& each : pool.chunks()) bytes += each.bytes;
  CHECK(bytes == pool.statistics().reserved_current);
  pool.deallocate(stream, second, more);
  pool.deallocate(stream, first, granule());
  stream.synchronize();
}

TEST_CASE("vmm_pool_resource: memory whose chunk was exported is reused, and exported again") {
  const stream stream;
  mr::vmm_pool_resource pool{first_device, shareable_pool()};
  imported_blocks seen{first_device, pool.statistics().address_bytes};
  for (std::uint32_t round = 0; round < 20; ++round) {
    const std::size_t bytes = (1 + round % 5) * granule() / 2;
    void* const block = pool.allocate(stream, bytes);
    const auto written = pattern(bytes, round);
    write_bytes(stream, block, written);
    {
      const imported_block imported = seen.add(pool.export_block(block));
      CHECK(read_bytes(stream, imported.data(), bytes) == written);
    }
    pool.deallocate(stream, block, bytes);
    // So that chunks go and come.
    if (round % 7 == 6) {
      stream.synchronize();
      pool.trim_to(0);
    }
  }
  stream.synchronize();
}

TEST_SUITE_END();

TEST_CASE("vmm_pool_resource: on slabs of hipMalloc it lists and exports nothing" *
          needs_fallback) {
  const stream stream;
  mr::vmm_pool_resource pool{first_device};
  void* const block = pool.allocate(stream, 100);
  CHECK_THROWS_AS(static_cast<void>(pool.chunks()), unsupported);
  CHECK_THROWS_AS(static_cast<void>(pool.export_chunks()), unsupported);
  CHECK_THROWS_WITH_AS(static_cast<void>(pool.export_block(block)),
                       doctest::Contains("hipIpcGetMemHandle"), unsupported);
  pool.deallocate(stream, block, 100);
  stream.synchronize();
}

/// A socket of a test, which a child inherits by this number.
constexpr int inherited = 100;

HIPVMM_CHILD("reads blocks and says so") {
  fd_channel channel{inherited};
  const auto opening = channel.receive();
  REQUIRE(opening.has_value());
  imported_blocks blocks{first_device, std::stoull(opening->note)};
  const stream stream;
  std::uint32_t seed = 0;
  for (auto next = channel.receive(); next; next = channel.receive()) {
    REQUIRE(next->block.has_value());
    const imported_block block = blocks.add(std::move(*next->block));
    CHECK(read_bytes(stream, block.data(), 1000) == pattern(1000, seed++));
    const auto answer = pattern(1000, seed + 100);
    write_bytes(stream, block.data(), answer);
    channel.send_note("done");
  }
  CHECK(seed == 10);
}

TEST_CASE("vmm_pool_resource: a block goes to another process and back" * needs_virtual_memory) {
  auto [mine, theirs] = fd_channel::make_pair();
  auto child = std::async(std::launch::async, [end = std::move(theirs)] {
    return run_child("reads blocks and says so", {}, {{end.get(), inherited}});
  });
  const stream stream;
  mr::vmm_pool_resource pool{first_device, shareable_pool()};
  mine.send_note(std::to_string(pool.statistics().address_bytes));
  std::vector<void*> held;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::size_t bytes = i % 2 == 0 ? 1000 : granule() + 1000;
    void* const block = pool.allocate(stream, bytes);
    held.push_back(block);
    const auto written = pattern(1000, i);
    write_bytes(stream, block, written);
    mine.send(pool.export_block(block));
    const auto answer = mine.receive();
    REQUIRE(answer.has_value());
    CHECK(answer->note == "done");
    CHECK(read_bytes(stream, block, 1000) == pattern(1000, i + 101));
    // Some blocks are reused, others add chunks.
    if (i % 3 != 0) {
      pool.deallocate(stream, block, bytes);
      held.pop_back();
    }
  }
  { const fd_channel closing{std::move(mine)}; }
  const child_result result = child.get();
  CHECK_MESSAGE(passed(result), result.output);
  for (void* const block : held) pool.deallocate(block);
}

shareable_handle some_memory() {
  const int descriptor = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  return {descriptor, 4096};
}

exported_range block_of(std::size_t chunks) {
  exported_range block{100, 4096 * chunks - 100, {}};
  for (std::size_t i = 0; i < chunks; ++i) block.chunks.push_back({i * 4096, i + 1, some_memory()});
  return block;
}

TEST_CASE("fd_channel: a block arrives with all its chunks") {
  const channel_options options{.timeout = std::chrono::milliseconds{100}};
  auto [left, right] = fd_channel::make_pair(options);
  for (const std::size_t count : {std::size_t{1}, std::size_t{16}, std::size_t{40}}) {
    left.send(block_of(count));
    left.send_note("next");
    const auto message = right.receive();
    REQUIRE(message.has_value());
    REQUIRE(message->block.has_value());
    CHECK(message->block->offset == 100);
    CHECK(message->block->bytes == 4096 * count - 100);
    CHECK(message->chunks.empty());
    REQUIRE(message->block->chunks.size() == count);
    CHECK(message->block->chunks.back().serial == count);
    CHECK(right.receive()->note == "next");
  }
  CHECK_THROWS_AS(left.send(exported_range{}), std::invalid_argument);
  exported_range emptied = block_of(2);
  emptied.chunks[1].handle = {};
  CHECK_THROWS_AS(left.send(emptied), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(right.receive()), ipc_error);  // nothing was sent
}

TEST_CASE("fd_channel: a block that does not end is an error, not memory") {
  const std::size_t before = open_descriptors();
  const channel_options options{.timeout = std::chrono::milliseconds{50}};
  {
    auto ends = fd_channel::make_pair(options);
    fd_channel& left = ends.first;
    fd_channel& right = ends.second;
    const auto head = [&left](std::size_t chunks) {
      REQUIRE(send_raw(left.get(), detail::encode(detail::block_packet{0, 1, chunks}, 0)));
    };
    const auto fails = [&right](ipc_failure why) {
      check_ipc_error(why, [&right] { static_cast<void>(right.receive()); });
    };
    SUBCASE("nothing follows") {
      head(1);
      fails(ipc_failure::timeout);
    }
    SUBCASE("the peer closes") {
      head(2);
      left.send(exported_chunk{0, 1, some_memory()});
      { const fd_channel closing{std::move(left)}; }
      fails(ipc_failure::closed);
    }
    SUBCASE("a note follows") {
      head(1);
      left.send_note("no chunk");
      fails(ipc_failure::malformed);
    }
    SUBCASE("more chunks follow") {
      head(1);
      left.send(block_of(2).chunks);
      fails(ipc_failure::malformed);
    }
    SUBCASE("a block in the block") {
      head(2);
      head(1);
      fails(ipc_failure::malformed);
    }
  }
  CHECK(open_descriptors() == before);
}

}  // namespace
}  // namespace hipvmm::test
