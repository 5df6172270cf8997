// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>

#include <hipvmm/region/region.hpp>
#include "mr/mr_test.hpp"
#include "support/resource/contract.hpp"

namespace hipvmm::mr {
namespace {

using test::at_most;
using test::first_device;

}  // namespace

TEST_CASE("vmm_pool_resource: keeps the contract of a resource") {
  vmm_pool_resource pool{first_device, at_most(256 * MiB)};
  test::check_contract({pool, first_device, 64 * MiB, 2 * MiB});
}

TEST_CASE("vmm_pool_resource: without virtual memory it says so, or refuses, as told" *
          test::needs_fallback) {
  pool_options options = at_most(16 * MiB);
  CHECK(vmm_pool_resource(first_device, options).explain().find("hipMalloc") != std::string::npos);
  options.fallback = without_vmm::refuse;
  CHECK_THROWS_AS(vmm_pool_resource(first_device, options), unsupported);
  options = at_most(16 * MiB);
  options.shareable = handle_type::posix_fd;
  CHECK_THROWS_AS(vmm_pool_resource(first_device, options), unsupported);
}

TEST_CASE("vmm_pool_resource: slabs neither join nor move, and go back as a whole" *
          test::needs_fallback) {
  vmm_pool_resource pool{first_device, at_most(256 * MiB)};
  const stream used{first_device};
  // Each in a slab of its own, because no slab has room for two.
  void* const low = pool.allocate(used, 6 * MiB);
  void* const high = pool.allocate(used, 6 * MiB);
  void* const beside = pool.allocate(used, 2 * MiB);
  CHECK(pool.statistics().reserved_current == 16 * MiB);
  pool.deallocate(used, low, 6 * MiB);
  pool.deallocate(used, high, 6 * MiB);
  used.synchronize();
  CHECK(pool.statistics().largest_now <= 8 * MiB);
  CHECK(pool.statistics().largest_moved == pool.statistics().largest_now);
  CHECK(pool.trim_to(0) == 8 * MiB);
  CHECK(pool.statistics().reserved_current == 8 * MiB);
  pool.deallocate(used, beside, 2 * MiB);
  used.synchronize();
  CHECK(pool.trim_to(0) == 8 * MiB);
  void* const again = pool.allocate(used, 20 * MiB, 2 * MiB);
  CHECK(reinterpret_cast<std::uintptr_t>(again) % (2 * MiB) == 0);
  fill_async(used, again, 1, 20 * MiB);
  pool.deallocate(used, again, 20 * MiB, 2 * MiB);
  CHECK_THROWS_AS(pool.allocate(used, 256, 4 * MiB), unsupported);
}

TEST_CASE("vmm_pool_resource: idle slabs that are too small go back for one that is not" *
          test::needs_fallback) {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  const stream used{first_device};
  void* const low = pool.allocate(used, 6 * MiB);
  void* const high = pool.allocate(used, 6 * MiB);
  CHECK_THROWS_AS(pool.allocate(used, 12 * MiB), out_of_memory);
  for (void* const each : {low, high}) {
    fill_async(used, each, 1, 6 * MiB);
    pool.deallocate(used, each, 6 * MiB);
  }
  void* const large = pool.allocate(used, 12 * MiB);
  fill_async(used, large, 1, 12 * MiB);
  CHECK(pool.statistics().reserved_high == 16 * MiB);
  pool.deallocate(used, large, 12 * MiB);
}

TEST_CASE("vmm_pool_resource: the options are kept, and bad ones refused") {
  pool_options options = at_most(64 * MiB);
  options.initial_bytes = 8 * MiB;
  options.release_threshold = 16 * MiB;
  options.reuse.allow_opportunistic = false;
  vmm_pool_resource pool{first_device, options};
  CHECK(pool.statistics().reserved_current == 8 * MiB);
  CHECK(pool.statistics().used_current == 0);
  CHECK(pool.maximum_bytes() == 64 * MiB);
  CHECK(pool.release_threshold() == 16 * MiB);
  CHECK_FALSE(pool.reuse().allow_opportunistic);
  CHECK(pool.reuse().follow_event_dependencies);
  CHECK(pool.device() == first_device);
  options.initial_bytes = 65 * MiB;
  CHECK_THROWS_AS(vmm_pool_resource(first_device, options), std::invalid_argument);
  CHECK_THROWS_AS(vmm_pool_resource{device_ref{-1}}, std::invalid_argument);
}

TEST_CASE("vmm_pool_resource: what it may hold and begins with goes by whole granules" *
          test::needs_virtual_memory) {
  const std::size_t granule = region{first_device, 64 * MiB}.granularity();
  pool_options options = at_most(7 * granule - 1);
  options.initial_bytes = 5 * granule + 1;
  vmm_pool_resource pool{first_device, options};
  CHECK(pool.maximum_bytes() == 6 * granule);
  CHECK(pool.statistics().reserved_current == 6 * granule);
  pool.deallocate_sync(pool.allocate_sync(6 * granule), 6 * granule);
  CHECK_THROWS_AS(pool.allocate_sync(6 * granule + 1), out_of_memory);
  CHECK_THROWS_AS(vmm_pool_resource(first_device, at_most(granule - 1)), std::invalid_argument);
  options.initial_bytes = 6 * granule + 1;
  CHECK_THROWS_AS(vmm_pool_resource(first_device, options), std::invalid_argument);
}

TEST_CASE("vmm_pool_resource: more than the maximum is refused with what would fit" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  const stream used{first_device};
  void* const held = pool.allocate(used, 10 * MiB);
  const std::string told =
      test::text_thrown_by<out_of_memory>([&] { return pool.allocate(used, 8 * MiB); });
  CHECK(told.find("holds 10.00 MiB of at most 16.00 MiB") != std::string::npos);
  CHECK(told.find("leaves no room for it: free memory, or raise maximum_bytes") !=
        std::string::npos);
  pool.deallocate(used, held, 10 * MiB);
}

TEST_CASE("vmm_pool_resource: what is not its own or not in use is reported and changes nothing") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  void* const mine = pool.allocate(used, 1 * MiB);
  int foreign = 0;
  const test::error_recorder reported;
  pool.deallocate(used, &foreign, 4);
  pool.deallocate(used, mine, 2 * MiB);
  pool.deallocate(used, static_cast<char*>(mine) + 512, 1 * MiB);
  REQUIRE(reported.count() == 3);
  CHECK(reported.errors()[0].message.find("none of this pool's") != std::string::npos);
  CHECK(reported.errors()[1].message.find("has 1048576 bytes") != std::string::npos);
  CHECK(reported.errors()[2].message.find("no allocation begins there") != std::string::npos);
  CHECK(pool.statistics().used_current == 1 * MiB);
  pool.deallocate(used, mine, 1 * MiB);
  pool.deallocate(used, mine, 1 * MiB);
  CHECK(reported.count() == 4);
}

TEST_CASE("vmm_pool_resource: a small block that is freed twice or as another size is reported") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  void* const mine = pool.allocate(used, 1000);
  const test::error_recorder reported;
  pool.deallocate(used, mine, 5000);
  CHECK(reported.count() == 1);
  pool.deallocate(used, mine, 1000);
  pool.deallocate(used, mine, 1000);
  pool.deallocate(mine);
  CHECK(reported.count() == 3);
  CHECK(pool.statistics().used_current == 0);
}

TEST_CASE("vmm_pool_resource: a deallocation of no bytes, or of more than there are, is reported") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {std::size_t{200}, 1 * MiB}) {
    void* const mine = pool.allocate(used, bytes);
    const std::size_t before = pool.statistics().used_current;
    const test::error_recorder reported;
    for (const std::size_t wrong : {std::size_t{0}, most, most - 100}) {
      pool.deallocate(used, mine, wrong);
      pool.deallocate_sync(mine, wrong);
    }
    CHECK(reported.count() == 6);
    for (const auto& each : reported.errors())
      CHECK(each.message.find("the allocation there has") != std::string::npos);
    CHECK(pool.statistics().used_current == before);
    pool.deallocate(used, mine, bytes);
    CHECK(reported.count() == 6);
    CHECK(pool.statistics().used_current == 0);
  }
}

TEST_CASE("vmm_pool_resource: memory in caches serves a request that needs all memory" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, at_most(4 * MiB)};
  const stream used{first_device};
  std::vector<void*> small;
  for (int i = 0; i < 100; ++i) small.push_back(pool.allocate(used, 4096));
  for (void* const each : small) pool.deallocate(used, each, 4096);
  void* const all = pool.allocate(used, 4 * MiB);
  CHECK(pool.statistics().used_current == 4 * MiB);
  CHECK(pool.statistics().reserved_high == 4 * MiB);
  pool.deallocate(used, all, 4 * MiB);
}

TEST_CASE("vmm_pool_resource: memory goes back by its address alone") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  for (const std::size_t bytes : {std::size_t{100}, 5 * MiB}) {
    void* const one = pool.allocate(used, bytes);
    pool.deallocate(one);
    CHECK(pool.statistics().used_current == 0);
    void* const again = pool.allocate(used, bytes);
    // A slab has room for both beside each other.
    CHECK((again == one || test::on_fallback()));
    pool.deallocate(again);
  }
  pool.deallocate(nullptr);
}

TEST_CASE("vmm_pool_resource: an address alone that is none of its own is refused") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  int foreign = 0;
  const test::error_recorder reported;
  pool.deallocate(&foreign);
  pool.deallocate(reinterpret_cast<void*>(~std::uintptr_t{255}));
  REQUIRE(reported.count() == 2);
  for (const auto& each : reported.errors()) {
    CHECK(each.message.find("none of this pool's: free it by the resource that allocated it") !=
          std::string::npos);
    CHECK(each.message.find("0 bytes") == std::string::npos);
  }
}

TEST_CASE("vmm_pool_resource: looking at the numbers changes nothing") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  void* const small = pool.allocate(used, 1000);
  void* const large = pool.allocate(used, 5 * MiB);
  pool.deallocate(used, pool.allocate(used, 1000), 1000);
  pool.deallocate(used, large, 5 * MiB);
  const auto hits = [&] {
    return pool.statistics().served[static_cast<std::size_t>(pool_source::own_stream)];
  };
  const std::uint64_t before = hits();
  const pool_statistics now = pool.statistics();
  CHECK(now.used_current == 1024);
  CHECK(now.used_high >= 5 * MiB + 2048);
  CHECK(now.largest_now >= 5 * MiB);
  REQUIRE(now.streams.size() == 2);
  CHECK(now.streams[0].free_bytes + now.streams[1].free_bytes == now.reserved_current - 1024);
  const pool_usage seen = pool.usage();
  CHECK(seen.reserved_current == now.reserved_current);
  CHECK(seen.reserved_high == now.reserved_high);
  CHECK(seen.used_current == now.used_current);
  CHECK(seen.used_high == now.used_high);
  // The blocks at hand still are: no request reaches the books.
  CHECK(pool.allocate(used, 5 * MiB) == large);
  void* const again = pool.allocate(used, 1000);
  CHECK(hits() == before);
  for (void* const each : {small, again}) pool.deallocate(used, each, 1000);
  pool.deallocate(used, large, 5 * MiB);
}

TEST_CASE("vmm_pool_resource: addresses are the pool's, allocated or not, or another's") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  vmm_pool_resource other{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  auto* const memory = static_cast<char*>(pool.allocate(used, 5 * MiB));
  for (const char* const inside : {memory, memory + 1, memory + 5 * MiB - 1}) {
    CHECK(pool.contains(inside));
    CHECK_FALSE(other.contains(inside));
  }
  pool.deallocate(used, memory, 5 * MiB);
  CHECK(pool.contains(memory));
  CHECK_FALSE(pool.contains(nullptr));
  CHECK_FALSE(pool.contains(&pool));
}

TEST_CASE("vmm_pool_resource: used and reserved bytes have highs that can be reset") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  void* const one = pool.allocate(used, 8 * MiB);
  pool.deallocate(used, one, 8 * MiB);
  used.synchronize();
  CHECK(pool.statistics().used_high == 8 * MiB);
  CHECK(pool.statistics().used_current == 0);
  CHECK(pool.trim_to(0) == 8 * MiB);
  CHECK(pool.statistics().reserved_high == 8 * MiB);
  CHECK(pool.statistics().reserved_current == 0);
  pool.reset_peaks();
  CHECK(pool.statistics().used_high == 0);
  CHECK(pool.statistics().reserved_high == 0);
}

TEST_CASE("vmm_pool_resource: what it begins with counts neither as used nor as served") {
  pool_options options = at_most(64 * MiB);
  options.initial_bytes = 16 * MiB;
  const vmm_pool_resource pool{first_device, options};
  const pool_statistics now = pool.statistics();
  CHECK(now.reserved_current >= 16 * MiB);
  CHECK(now.reserved_high == now.reserved_current);
  CHECK(now.used_high == 0);
  for (const std::uint64_t each : now.served) CHECK(each == 0);
}

TEST_CASE("vmm_pool_resource: the callback may free memory and have the request tried again") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  const stream used{first_device};
  void* cache = pool.allocate(used, 12 * MiB);
  std::size_t asked = 0;
  pool.set_out_of_memory_callback([&](std::size_t bytes) {
    asked = bytes;
    if (cache == nullptr) return false;
    pool.deallocate(used, std::exchange(cache, nullptr), 12 * MiB);
    return true;
  });
  void* const one = pool.allocate(used, 10 * MiB);
  CHECK(asked == 10 * MiB);
  CHECK(pool.statistics().callbacks == 1);
  CHECK_THROWS_AS(pool.allocate(used, 10 * MiB), out_of_memory);
  CHECK(pool.statistics().callbacks == 2);
  pool.set_out_of_memory_callback(nullptr);
  CHECK_THROWS_AS(pool.allocate(used, 10 * MiB), out_of_memory);
  CHECK(pool.statistics().callbacks == 2);
  pool.deallocate(used, one, 10 * MiB);
}

TEST_CASE("vmm_pool_resource: idle chunks in holes serve a request that no hole holds" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  std::vector<void*> parts;
  for (int i = 0; i < 16; ++i) parts.push_back(pool.allocate(used, 4 * MiB));
  for (std::size_t i = 0; i < parts.size(); i += 2) pool.deallocate(used, parts[i], 4 * MiB);
  used.synchronize();
  CHECK(pool.statistics().largest_now == 4 * MiB);
  CHECK(pool.statistics().largest_moved == 32 * MiB);
  void* const one = pool.allocate(used, 32 * MiB);
  fill_async(used, one, 3, 32 * MiB);
  used.synchronize();
  CHECK(pool.statistics().reserved_current == 64 * MiB);
  CHECK(pool.statistics().chunks_moved != 0);
  pool.deallocate(used, one, 32 * MiB);
  for (std::size_t i = 1; i < parts.size(); i += 2) pool.deallocate(used, parts[i], 4 * MiB);
}

TEST_CASE("vmm_pool_resource: a stream that was made to wait takes what caches of the other hold") {
  std::size_t bytes = 0;
  SUBCASE("a block") { bytes = 2 * MiB; }
  SUBCASE("pieces") { bytes = 4 * KiB; }
  pool_options options = at_most(2 * MiB);
  options.reuse = {true, false, false};
  vmm_pool_resource pool{first_device, options};
  const stream first{first_device};
  const stream second{first_device};
  pool.deallocate(first, pool.allocate(first, bytes), bytes);
  event given_back{first_device};
  given_back.record(first);
  second.wait(given_back);
  pool.note_stream_wait(second, first);
  pool.deallocate(second, pool.allocate(second, 2 * MiB), 2 * MiB);
  const auto served = pool.statistics().served;
  CHECK(served[static_cast<std::size_t>(pool_source::followed_stream)] == 1);
  CHECK(served[static_cast<std::size_t>(pool_source::waited)] == 0);
}

TEST_CASE("vmm_pool_resource: a stream that waits for an event takes what was freed before") {
  std::size_t bytes = 0;
  SUBCASE("a block") { bytes = 2 * MiB; }
  SUBCASE("pieces") { bytes = 4 * KiB; }
  pool_options options = at_most(6 * MiB);
  options.reuse = {true, false, false};
  vmm_pool_resource pool{first_device, options};
  const stream first{first_device};
  const stream second{first_device};
  event given_back{first_device};
  void* const before = pool.allocate(first, bytes);
  // Neighbours would become one, freed behind the event.
  void* const between = pool.allocate(first, 2 * MiB);
  void* const behind = pool.allocate(first, 2 * MiB);
  pool.deallocate(first, before, bytes);
  given_back.record(first);
  pool.deallocate(first, behind, 2 * MiB);
  second.wait(given_back);
  void* const one = pool.allocate(second, bytes);
  const auto served = [&](pool_source source) {
    return pool.statistics().served[static_cast<std::size_t>(source)];
  };
  CHECK(served(pool_source::followed_stream) == 1);
  // Memory freed behind the event is not the other stream's, which gets it by waiting only.
  CHECK(served(pool_source::waited) == 0);
  void* const other = pool.allocate(second, 2 * MiB);
  CHECK(served(pool_source::followed_stream) == 1);
  pool.deallocate(second, other, 2 * MiB);
  pool.deallocate(second, one, bytes);
  pool.deallocate(first, between, 2 * MiB);
}

TEST_CASE("vmm_pool_resource: a stream that ends says so itself") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  for (int i = 0; i < 20; ++i) {
    const stream next{first_device};
    void* const one = pool.allocate(next, 16 * MiB);
    fill_async(next, one, 2, test::filled_bytes(16 * MiB));
    pool.deallocate(next, one, 16 * MiB);
  }
  first_device.synchronize();
  CHECK(pool.trim_to(0, std::chrono::steady_clock::time_point::max()) == 16 * MiB);
  CHECK(pool.statistics().streams.size() <= 2);
}

TEST_CASE("vmm_pool_resource: a stream that was forgotten may go with its memory freed") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  {
    const stream gone{first_device};
    void* const one = pool.allocate(gone, 16 * MiB);
    fill_async(gone, one, 1, test::filled_bytes(16 * MiB));
    pool.deallocate(gone, one, 16 * MiB);
    pool.forget_stream(gone);
  }
  for (int i = 0; i < 20; ++i) {
    const stream next{first_device};
    void* const one = pool.allocate(next, 16 * MiB);
    fill_async(next, one, 2, test::filled_bytes(16 * MiB));
    pool.deallocate(next, one, 16 * MiB);
    pool.forget_stream(next);
  }
  CHECK(pool.statistics().reserved_current == 16 * MiB);
}

TEST_CASE("vmm_pool_resource: default streams of threads are told apart") {
  vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  test::in_threads(4, [&pool](int) {
    const stream_ref own = stream_ref::per_thread_default();
    for (int i = 0; i < 20; ++i) {
      void* const one = pool.allocate(own, 4 * MiB);
      fill_async(own, one, static_cast<unsigned char>(i), test::filled_bytes(4 * MiB));
      pool.deallocate(own, one, 4 * MiB);
    }
  });
  CHECK(pool.statistics().used_current == 0);
  CHECK(pool.statistics().reserved_current <= 16 * MiB);
}

TEST_CASE("vmm_pool_resource: peers get the memory that is there and that comes") {
  if (device_count() < 2 || !device_ref{1}.can_access_peer(first_device)) {
    MESSAGE("skipped: needs two devices that reach each other");
    return;
  }
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stream used{first_device};
  void* const before = pool.allocate(used, 2 * MiB);
  pool.grant(device_ref{1});
  void* const after = pool.allocate(used, 4 * MiB);
  CHECK(pool.access(device_ref{1}) == access_right::read_write);
  if (!test::on_fallback()) {
    CHECK(get_access(before, device_ref{1}) == access_right::read_write);
    CHECK(get_access(after, device_ref{1}) == access_right::read_write);
  }
  pool.revoke(device_ref{1});
  CHECK(pool.access(device_ref{1}) == access_right::none);
  pool.deallocate(used, before, 2 * MiB);
  pool.deallocate(used, after, 4 * MiB);
}

TEST_CASE("vmm_pool_resource: one that ends with memory allocated says so") {
  const test::error_recorder reported;
  {
    vmm_pool_resource pool{first_device, at_most(16 * MiB)};
    static_cast<void>(pool.allocate_sync(1 * MiB));
  }
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().front().message.find("1.00 MiB still in use") != std::string::npos);
  CHECK(reported.errors().front().message.ends_with("is an error of the program"));
  drain_retired_memory();
}

TEST_CASE("vmm_pool_resource: the report fits a screen") {
  vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  std::vector<stream> streams;
  for (int i = 0; i < 20; ++i) {
    const stream& used = streams.emplace_back(first_device);
    pool.deallocate(used, pool.allocate(used, 1 * MiB), 1 * MiB);
  }
  const std::string report = pool.report();
  CHECK(std::count(report.begin(), report.end(), '\n') <= 25);
  CHECK(report.find("limit 64.00 MiB") != std::string::npos);
  CHECK(report.find("stream 0x") != std::string::npos);  // as debuggers and logs write them
}

}  // namespace hipvmm::mr
