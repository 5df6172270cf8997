// SPDX-License-Identifier: MIT
// Reports of pools, regions and vectors to a memory_event_subscription.
#include <hipvmm/core/observers/memory_events.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/region/region.hpp>
#include "mr/mr_test.hpp"

namespace hipvmm {
namespace {

using test::first_device;
using kind = memory_event_kind;

/// The events so far of one object, and of one kind if one is named.
class observed {
 public:
  std::vector<memory_event> of(std::uint64_t object) {
    refresh();
    std::vector<memory_event> result;
    for (const memory_event& each : seen_)
      if (each.object == object) result.push_back(each);
    return result;
  }
  std::vector<memory_event> of(std::uint64_t object, kind wanted) {
    std::vector<memory_event> result = of(object);
    std::erase_if(result, [wanted](const memory_event& each) { return each.kind != wanted; });
    return result;
  }
  static std::size_t sum(const std::vector<memory_event>& events) {
    std::size_t bytes = 0;
    for (const memory_event& each : events) bytes += each.bytes;
    return bytes;
  }

 private:
  void refresh() {
    const std::vector<memory_event> more = all_.read();
    seen_.insert(seen_.end(), more.begin(), more.end());
  }

  memory_event_subscription all_;
  std::vector<memory_event> seen_;
};

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

TEST_CASE("memory events: a pool reports what it allocates and what is deallocated to it") {
  mr::vmm_pool_resource pool{first_device};
  const stream stream{first_device};
  observed events;
  for (const std::size_t bytes : {std::size_t{100}, 40 * KiB, 3 * MiB}) {
    void* const pointer = pool.allocate(stream, bytes);
    const auto made = events.of(pool.event_id(), kind::allocate);
    REQUIRE(!made.empty());
    CHECK(made.back().address == address_of(pointer));
    CHECK(made.back().bytes == bytes);
    CHECK(made.back().stream == address_of(stream.get()));
    CHECK(made.back().device == first_device.ordinal());
    CHECK(made.back().source == memory_event_source::pool);
    pool.deallocate(stream, pointer, bytes);
    const auto freed = events.of(pool.event_id(), kind::deallocate);
    REQUIRE(freed.size() == made.size());
    CHECK(freed.back().address == address_of(pointer));
    CHECK(freed.back().bytes == bytes);
  }
  void* const unordered = pool.allocate_sync(MiB);
  pool.deallocate_sync(unordered, MiB);
  void* const by_address = pool.allocate(stream, 5 * MiB);
  pool.deallocate(by_address);
  const auto made = events.of(pool.event_id(), kind::allocate);
  const auto freed = events.of(pool.event_id(), kind::deallocate);
  REQUIRE(made.size() == 5);
  REQUIRE(freed.size() == 5);
  CHECK(made[3].stream == 0);
  CHECK(freed[3].stream == 0);
  CHECK(freed[4].address == address_of(by_address));
}

TEST_CASE("memory events: a refused deallocation is none") {
  mr::vmm_pool_resource pool{first_device};
  const stream stream{first_device};
  const test::error_recorder reported;
  observed events;
  void* const pointer = pool.allocate(stream, 3 * MiB);
  pool.deallocate(stream, pointer, 2 * MiB);
  CHECK(reported.count() == 1);
  CHECK(events.of(pool.event_id(), kind::deallocate).empty());
  pool.deallocate(stream, pointer, 3 * MiB);
  CHECK(events.of(pool.event_id(), kind::deallocate).size() == 1);
}

TEST_CASE("memory events: a pool's growth and trims add up to what it holds") {
  mr::vmm_pool_resource pool{first_device};
  const stream stream{first_device};
  observed events;
  const auto held = [&] {
    return observed::sum(events.of(pool.event_id(), kind::grow)) -
           observed::sum(events.of(pool.event_id(), kind::trim));
  };
  std::vector<void*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(pool.allocate(stream, 5 * MiB));
  CHECK(held() == pool.statistics().reserved_current);
  for (void* const each : blocks) pool.deallocate(stream, each, 5 * MiB);
  stream.synchronize();
  static_cast<void>(pool.trim_to(8 * MiB));
  CHECK(held() == pool.statistics().reserved_current);
  static_cast<void>(pool.trim_to(0));
  CHECK(held() == pool.statistics().reserved_current);
  CHECK(!events.of(pool.event_id(), kind::trim).empty());
}

TEST_CASE("memory events: a request that is refused is out_of_memory") {
  mr::vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
  const stream stream{first_device};
  observed events;
  CHECK_THROWS_AS(pool.allocate(stream, GiB), std::bad_alloc);
  const auto refused = events.of(pool.event_id());
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].kind == kind::out_of_memory);
  CHECK(refused[0].bytes == GiB);
}

TEST_CASE("memory events: grant and revoke name the peer") {
  HIPVMM_REQUIRE_DEVICE(peer, test::peer_of(first_device), "second device");
  mr::vmm_pool_resource pool{first_device};
  observed events;
  pool.grant(peer);
  pool.revoke(peer);
  const auto seen = events.of(pool.event_id());
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].kind == kind::grant);
  CHECK(seen[0].peer == peer.ordinal());
  CHECK(seen[0].device == first_device.ordinal());
  CHECK(seen[1].kind == kind::revoke);
}

TEST_CASE("memory events: set_access reports the rights that change, and no other") {
  HIPVMM_REQUIRE_DEVICE(peer, test::peer_of(first_device), "second device");
  mr::vmm_pool_resource pool{first_device};
  observed events;
  pool.set_access({{peer, access_right::read_write}});
  pool.set_access({{peer, access_right::read_write}});
  pool.set_access({});
  const auto seen = events.of(pool.event_id());
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].kind == kind::grant);
  CHECK(seen[0].peer == peer.ordinal());
  CHECK(seen[1].kind == kind::revoke);
  CHECK(seen[1].peer == peer.ordinal());
}

TEST_CASE("memory events: an arena and the pool below it report under numbers of their own") {
  mr::vmm_pool_resource upstream{first_device};
  mr::arena_resource arena{&upstream};
  const stream stream{first_device};
  observed events;
  void* const pointer = arena.allocate(stream, MiB);
  arena.deallocate(stream, pointer, MiB);
  CHECK(events.of(upstream.event_id(), kind::allocate).size() == 1);
  CHECK(arena.event_id() != upstream.event_id());
  CHECK(events.of(arena.event_id(), kind::allocate).size() == 1);
  CHECK(events.of(arena.event_id(), kind::deallocate).size() == 1);
}

TEST_CASE("memory events: a region reports growth, trims and rights, its mappings map and unmap" *
          test::needs_virtual_memory) {
  drain_retired_memory();  // of other cases
  observed events;
  const std::size_t unit = test::granule();
  std::uint64_t id = 0;
  {
    region memory{first_device, 8 * unit};
    id = memory.event_id();
    CHECK(id != 0);
    memory.commit(unit, 2 * unit);
    const auto grown = events.of(id, kind::grow);
    REQUIRE(grown.size() == 1);
    CHECK(grown[0].address == address_of(memory.base()) + unit);
    CHECK(grown[0].bytes == 2 * unit);
    const auto mapped = events.of(0, kind::map);
    CHECK(observed::sum(mapped) == 2 * unit);
    CHECK(mapped.front().address == address_of(memory.base()) + unit);
    CHECK(mapped.front().device == first_device.ordinal());
    CHECK(memory.decommit(unit, 2 * unit) == 2 * unit);
    CHECK(observed::sum(events.of(id, kind::trim)) == 2 * unit);
    memory.grant(first_device, access_right::read_write);
    CHECK(events.of(id, kind::grant).size() == 1);
    region moved = std::move(memory);
    CHECK(moved.event_id() == id);
    CHECK(memory.event_id() == 0);
  }
  CHECK(observed::sum(events.of(0, kind::unmap)) == observed::sum(events.of(0, kind::map)));
}

TEST_CASE("memory events: a vector reports growth and what shrinking releases") {
  observed events;
  const stream stream{first_device};
  growable_device_vector<int> numbers{first_device};
  numbers.resize(5'000'000, 1, stream);
  const auto grown = events.of(numbers.event_id(), kind::grow);
  REQUIRE(!grown.empty());
  CHECK(grown.back().source == memory_event_source::vector);
  CHECK(grown.back().address == address_of(numbers.data()));
  CHECK(observed::sum(grown) == numbers.capacity() * sizeof(int));
  numbers.resize(1, 1, stream);
  const std::size_t released = numbers.shrink_to_fit(stream);
  CHECK(observed::sum(events.of(numbers.event_id(), kind::trim)) == released);
  growable_device_vector<int> other = std::move(numbers);
  CHECK(other.event_id() != numbers.event_id());
  drain_retired_memory();
}

TEST_CASE("memory events: a vector reports the chunks that erase_front releases" *
          test::needs_virtual_memory) {
  const stream used{first_device};
  growable_device_vector<char> bytes{first_device};
  observed events;
  // Whole chunks are released, and not the last one.
  for (std::size_t i = 1; i <= 4; ++i) bytes.resize(i * 8 * MiB, used);
  const std::size_t held = bytes.capacity();
  bytes.erase_front(24 * MiB, used);
  const std::vector<memory_event> released = events.of(bytes.event_id(), kind::trim);
  REQUIRE(released.size() == 1);
  CHECK(released.front().bytes > 0);
  CHECK(released.front().bytes <= held - bytes.capacity());
}

TEST_CASE("memory events: a vector that cannot grow reports out_of_memory") {
  observed events;
  growable_device_vector<char> bytes{first_device};
  const std::size_t too_many = 4 * first_device.total_memory();
  CHECK_THROWS_AS(bytes.reserve(too_many), std::bad_alloc);
  const auto refused = events.of(bytes.event_id(), kind::out_of_memory);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].bytes == too_many);
}

TEST_CASE("memory events: a callback may use the pool that reports, also of its slow path") {
  mr::vmm_pool_resource pool{first_device};
  const stream stream{first_device};
  std::size_t seen = 0;
  std::size_t held = 0;
  {
    const memory_event_subscription all{[&](const memory_event& event) {
      if (event.object != pool.event_id()) return;
      ++seen;
      held = pool.statistics().reserved_current;
      void* const pointer = pool.allocate(stream, 64 * KiB);
      pool.deallocate(stream, pointer, 64 * KiB);
    }};
    void* const pointer = pool.allocate(stream, 7 * MiB);
    pool.deallocate(stream, pointer, 7 * MiB);
    stream.synchronize();
    static_cast<void>(pool.trim_to(0));
  }
  CHECK(seen >= 4);  // grow, allocate, deallocate, trim
  CHECK(held <= pool.maximum_bytes());
}

}  // namespace hipvmm
