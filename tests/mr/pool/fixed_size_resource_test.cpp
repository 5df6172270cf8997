// SPDX-License-Identifier: MIT
#include <latch>

#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include "mr/mr_test.hpp"
#include "support/resource/contract.hpp"
#include "support/resource/counted_upstream.hpp"

// fixed_size_resource, binning_resource and callback_resource, and parts of arena_resource.
namespace hipvmm::mr {
namespace {

using test::counted_upstream;
using test::first_device;
using test::refusal;

void verify_contract(memory_resource& resource, std::size_t largest) {
  test::check_contract({resource, first_device, largest});
}

}  // namespace

TEST_CASE("fixed_size_resource: keeps the contract of a resource, for blocks of any size") {
  hip_resource below{first_device};
  std::size_t block = 1 * MiB;
  SUBCASE("1 MiB") {}
  SUBCASE("no multiple of 256") { block = 100'000; }
  SUBCASE("of small pieces") { block = 9000; }
  fixed_size_resource blocks{&below, block, 16};
  verify_contract(blocks, block);
}

TEST_CASE("binning_resource: keeps the contract of a resource") {
  hip_resource below{first_device};
  arena_resource arena{&below, 64 * MiB};
  binning_resource bins{&arena};
  bins.add_bin(4096);
  bins.add_bin(64 * KiB);
  verify_contract(bins, 4 * MiB);
}

TEST_CASE("callback_resource: keeps the contract of a resource") {
  counted_upstream upstream;
  verify_contract(*upstream.get(), 4 * MiB);
}

TEST_CASE("sub-allocators: bad arguments are refused by name") {
  hip_resource below{first_device};
  CHECK_THROWS_WITH_AS(arena_resource{nullptr}, doctest::Contains("arena_resource"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(fixed_size_resource{nullptr}, doctest::Contains("fixed_size_resource"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(binning_resource{nullptr}, doctest::Contains("binning_resource"),
                       std::invalid_argument);
  // Blocks of one byte hold 256.
  CHECK_THROWS_WITH_AS(fixed_size_resource(&below, 1, std::size_t{1} << 35),
                       doctest::Contains("34359738368 blocks of 1 bytes"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(arena_resource(&below, 255), doctest::Contains("arena_size of 255"),
                       std::invalid_argument);
  CHECK_THROWS_AS(fixed_size_resource(&below, 0), std::invalid_argument);
  CHECK_THROWS_AS(fixed_size_resource(&below, 256, 0), std::invalid_argument);
  CHECK_THROWS_AS(fixed_size_resource(&below, 32 * TiB, 1), std::invalid_argument);
  CHECK_THROWS_WITH_AS(binning_resource(&below, 9, 8), doctest::Contains("2^9 to 2^8"),
                       std::invalid_argument);
  CHECK_THROWS_AS(binning_resource(&below, -1, 8), std::invalid_argument);
  CHECK_THROWS_AS(binning_resource(&below, 8, 41), std::invalid_argument);
  binning_resource bins{&below};
  CHECK_THROWS_AS(bins.add_bin(0), std::invalid_argument);
  CHECK_THROWS_AS(bins.add_bin(2 * TiB), std::invalid_argument);
  CHECK_THROWS_WITH_AS(callback_resource(nullptr, [](void*, std::size_t, stream_ref, void*) {}),
                       doctest::Contains("callback to allocate"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      callback_resource([](std::size_t, stream_ref, void*) -> void* { return nullptr; }, nullptr),
      doctest::Contains("callback to deallocate"), std::invalid_argument);
}

TEST_CASE("sub-allocators: their device is the upstream's") {
  hip_resource below{first_device};
  arena_resource arena{&below, 16 * MiB};
  fixed_size_resource blocks{&arena, 1 * MiB, 4};
  const binning_resource bins{&blocks};
  CHECK(arena.device() == first_device);
  CHECK(blocks.device() == first_device);
  CHECK(bins.device() == first_device);
  CHECK(blocks.get_upstream_resource() == &arena);
  counted_upstream unknown;
  CHECK_FALSE(unknown.get()->device().has_value());
}

TEST_CASE("sub-allocators: an alignment that slabs do not keep is unsupported") {
  hip_resource below{first_device};
  arena_resource arena{&below, 16 * MiB};
  CHECK_THROWS_WITH_AS(arena.allocate_sync(256, 512), doctest::Contains("at most 256"),
                       unsupported);
  fixed_size_resource blocks{&below, 4096, 4};
  CHECK_THROWS_WITH_AS(blocks.allocate_sync(256, 512), doctest::Contains("fixed_size_resource"),
                       unsupported);
}

TEST_CASE("sub-allocators: foreign memory, and memory allocated at their end, is reported") {
  hip_resource below{first_device};
  const test::error_recorder reported;
  {
    fixed_size_resource blocks{&below, 1 * MiB, 2};
    void* const one = blocks.allocate_sync(100);
    int foreign = 0;
    blocks.deallocate_sync(&foreign, 4);
    blocks.deallocate_sync(one, 2 * MiB);
    REQUIRE(reported.count() == 2);
    CHECK(reported.errors()[0].message.find("none of this pool's") != std::string::npos);
    CHECK(reported.errors()[0].message.find(" bytes at 0x") != std::string::npos);
    CHECK(reported.errors()[1].message.find("blocks are smaller") != std::string::npos);
    CHECK(blocks.statistics().used == 1);
  }
  REQUIRE(reported.count() == 3);
  CHECK(reported.errors()[2].message.find("1.00 MiB still in use") != std::string::npos);
}

TEST_CASE("fixed_size_resource: it takes as many blocks at a time as it was told") {
  counted_upstream upstream;
  std::size_t block = 0;
  SUBCASE("large") { block = 64 * KiB; }
  SUBCASE("small") { block = 4 * KiB; }
  fixed_size_resource blocks{upstream.get(), block, 4};
  CHECK(blocks.get_block_size() == block);
  CHECK(upstream.held() == 4 * block);
  CHECK(blocks.statistics().held == 4);
  std::vector<void*> out;
  for (int i = 0; i < 5; ++i) out.push_back(blocks.allocate_sync(block - 1));
  CHECK(upstream.held() == 8 * block);
  CHECK(upstream.calls() == 2);
  CHECK(blocks.statistics().held == 8);
  CHECK(blocks.statistics().used == 5);
  for (void* const each : out) blocks.deallocate_sync(each, block - 1);
  CHECK(blocks.statistics().used == 0);
  // Work of any stream might use memory freed without one, until its devices were waited for.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  CHECK(blocks.trim_to(4, deadline) == 4 * block);
  CHECK(blocks.trim_to(0, deadline) == 4 * block);
  CHECK(upstream.held() == 0);
}

TEST_CASE("fixed_size_resource: more than a block is out_of_memory with advice") {
  hip_resource below{first_device};
  fixed_size_resource blocks{&below, 1000, 4};
  CHECK(blocks.get_block_size() == 1024);
  blocks.deallocate_sync(blocks.allocate_sync(1024), 1024);
  CHECK(refusal(blocks, 1025).find("binning_resource") != std::string::npos);
}

TEST_CASE("fixed_size_resource: an upstream that has no room for many blocks gives one") {
  counted_upstream upstream{5 * MiB};
  fixed_size_resource blocks{upstream.get(), 1 * MiB, 4};
  std::vector<void*> out;
  for (int i = 0; i < 5; ++i) out.push_back(blocks.allocate_sync(1 * MiB));
  CHECK(upstream.held() == 5 * MiB);
  CHECK(refusal(blocks, 1 * MiB).find("free blocks") != std::string::npos);
  for (void* const each : out) blocks.deallocate_sync(each, 1 * MiB);
}

TEST_CASE("binning_resource: a bin may be an adaptor of it, with a device known or not") {
  new_delete_resource memory;
  callback_resource upstream{
      [&](std::size_t bytes, stream_ref, void*) { return memory.allocate_sync(bytes); },
      [&](void* one, std::size_t bytes, stream_ref, void*) { memory.deallocate_sync(one, bytes); }};
  binning_resource bins{&upstream};
  aligned_resource_adaptor larger{&bins, 4096};
  bins.add_bin(256, &larger);
  CHECK_FALSE(bins.device());
  hip_resource on_device{first_device};
  bins.add_bin(512, &on_device);
  CHECK(bins.device() == first_device);
}

TEST_CASE("binning_resource: a request goes to the smallest bin that holds it") {
  hip_resource below{first_device};
  fixed_size_resource small{&below, 4 * KiB, 4};
  fixed_size_resource large{&below, 64 * KiB, 4};
  counted_upstream upstream;
  binning_resource bins{upstream.get()};
  bins.add_bin(64 * KiB, &large);
  bins.add_bin(4 * KiB, &small);
  struct expected {
    std::size_t bytes;
    std::size_t alignment;
    std::size_t small_used;
    std::size_t large_used;
  };
  for (const expected& each :
       {expected{1, 256, 1, 0}, expected{4096, 256, 1, 0}, expected{4097, 256, 0, 1},
        expected{65536, 16, 0, 1}, expected{65537, 256, 0, 0}, expected{100, 1024, 0, 0}}) {
    CAPTURE(each.bytes);
    void* const one = bins.allocate_sync(each.bytes, each.alignment);
    CHECK(small.statistics().used == each.small_used);
    CHECK(large.statistics().used == each.large_used);
    CHECK((upstream.held() != 0) == (each.small_used + each.large_used == 0));
    bins.deallocate_sync(one, each.bytes, each.alignment);
    CHECK(small.statistics().used + large.statistics().used + upstream.held() == 0);
  }
}

TEST_CASE("binning_resource: bins by powers of two take their blocks from the upstream") {
  counted_upstream upstream;
  const binning_resource bins{upstream.get(), 10, 12};
  CHECK(upstream.held() == 128 * (1 + 2 + 4) * KiB);
}

TEST_CASE(
    "binning_resource: a bin added while memory is out gets none of it, nor is it added twice") {
  counted_upstream upstream;
  binning_resource bins{upstream.get()};
  void* const one = bins.allocate_sync(1000);
  bins.add_bin(1000);
  const std::size_t of_bin = upstream.held() - 1000;
  const std::size_t calls = upstream.calls();
  bins.add_bin(1024);
  CHECK(upstream.calls() == calls);
  const test::error_recorder reported;
  bins.deallocate_sync(one, 1000);
  CHECK(upstream.held() == of_bin);
  void* const two = bins.allocate_sync(1000);
  CHECK(upstream.held() == of_bin);
  bins.deallocate_sync(two, 1000);
  CHECK(reported.count() == 0);
  CHECK_THROWS_AS(bins.allocate_sync(64 * TiB), std::bad_alloc);
}

TEST_CASE("binning_resource: memory that is not allocated is told, and goes nowhere") {
  counted_upstream upstream;
  binning_resource bins{upstream.get()};
  void* const one = bins.allocate_sync(1000);
  void* const other = bins.allocate_sync(1000);
  const test::error_recorder reported;
  bins.deallocate_sync(one, 1000);
  bins.deallocate_sync(one, 1000);
  const stream used{first_device};
  bins.deallocate(used, &upstream, 1000);
  CHECK(upstream.held() == 1000);
  REQUIRE(reported.count() == 2);
  for (const auto& each : reported.errors())
    CHECK(each.message.find("that are not allocated") != std::string::npos);
  bins.deallocate_sync(other, 1000);
  CHECK(upstream.held() == 0);
}

TEST_CASE("binning_resource: memory that went back past it is told when it is given again") {
  alignas(256) static char memory[256];
  callback_resource upstream{[](std::size_t, stream_ref, void*) -> void* { return memory; },
                             [](void*, std::size_t, stream_ref, void*) {}};
  binning_resource bins{&upstream};
  const test::error_recorder reported;
  upstream.deallocate_sync(bins.allocate_sync(100), 100);
  CHECK(bins.allocate_sync(100) == memory);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors()[0].message.find("allocated again") != std::string::npos);
}

TEST_CASE("binning_resource: a bin added while threads allocate gets back what it gave") {
  new_delete_resource below;
  statistics_resource_adaptor counted{&below};
  const test::error_recorder reported;
  {
    binning_resource bins{&counted};
    std::latch begun{2};
    const auto use = [&](std::size_t bytes) {
      for (int i = 0; i < 5000; ++i, bytes = bytes * 7 % 2039 + 1) {
        void* const block = bins.allocate_sync(bytes);
        if (i == 10) begun.arrive_and_wait();  // with memory out
        bins.deallocate_sync(block, bytes);
      }
    };
    std::array users{std::async(std::launch::async, use, 1),
                     std::async(std::launch::async, use, 2)};
    begun.wait();
    bins.add_bin(2048);
    for (auto& each : users) each.get();
    // Again on a GPU that is slow to pass memory freed without a stream.
    const auto held = counted.get_bytes_counter().value;
    CHECK((HIPVMM_TEST_ON_CUDA != 0 ? held % (128 * 2048) : held - 128 * 2048) == 0);
    CHECK(held > 0);
  }
  CHECK(counted.get_bytes_counter().value == 0);
  CHECK(reported.count() == 0);
}

TEST_CASE("binning_resource: a bin of another device is refused") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  hip_resource here{first_device};
  hip_resource there{device_ref{1}};
  binning_resource bins{&here};
  CHECK_THROWS_WITH_AS(bins.add_bin(1024, &there), doctest::Contains("device 1"),
                       std::invalid_argument);
}

TEST_CASE("callback_resource: functions get the size, the stream and their arguments") {
  int arguments[2] = {};
  const stream used{first_device};
  struct call {
    std::size_t bytes;
    ihipStream_t* stream;
    void* args;
  };
  std::vector<call> calls;
  alignas(256) static char memory[512];
  callback_resource resource{[&](std::size_t bytes, stream_ref stream, void* args) -> void* {
                               calls.push_back({bytes, stream.get(), args});
                               return bytes > sizeof memory ? nullptr : memory;
                             },
                             [&](void*, std::size_t bytes, stream_ref stream, void* args) {
                               calls.push_back({bytes, stream.get(), args});
                               if (bytes == 1) throw std::runtime_error{"kept"};
                             },
                             &arguments[0], &arguments[1]};
  resource.deallocate(used, resource.allocate(used, 300), 300);
  REQUIRE(calls.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(calls[i].bytes == 300);
    CHECK(calls[i].stream == used.get());
    CHECK(calls[i].args == &arguments[i]);
  }
  CHECK(refusal(resource, 513).find("gave nullptr") != std::string::npos);
  CHECK_THROWS_AS(resource.allocate(used, 8, std::size_t{1} << 40), std::invalid_argument);
  const test::error_recorder reported;
  resource.deallocate(used, memory, 1);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors()[0].message == "kept");
}

namespace {

/// Returns nullptr for the first requests, as no resource may.
class empty_handed final : public resource_adaptor {
 public:
  explicit empty_handed(memory_resource* upstream) : resource_adaptor{"empty_handed", upstream} {}

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override {
    return ++requests_ < 4 ? nullptr : resource_adaptor::do_allocate(stream, bytes, alignment);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override {
    return ++requests_ < 4 ? nullptr : resource_adaptor::do_allocate_sync(bytes, alignment);
  }
  int requests_ = 0;
};

}  // namespace

TEST_CASE("arena_resource, fixed_size_resource: an upstream that gives nullptr is out of memory") {
  hip_resource below{first_device};
  empty_handed one{&below};
  CHECK_THROWS_AS((fixed_size_resource{&one, 4096, 16}), out_of_memory);
  empty_handed other{&below};
  arena_resource arena{&other, 8 * MiB};
  CHECK_THROWS_AS(arena.allocate_sync(1000), out_of_memory);
}

TEST_CASE("arena_resource: a small arena asks its upstream a few times") {
  counted_upstream upstream;
  arena_resource arena{upstream.get(), 4 * MiB};
  const stream used{first_device};
  std::vector<void*> all;
  for (int i = 0; i < 4000; ++i) all.push_back(arena.allocate(used, 1000));
  CHECK(upstream.calls() <= 4);
  for (void* const each : all) arena.deallocate(used, each, 1000);
}

}  // namespace hipvmm::mr
