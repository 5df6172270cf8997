// SPDX-License-Identifier: MIT
// Memory that leaves its device for a request that lacks memory, and returns when it is used.
#include <hipvmm/region/sleep/evictable.hpp>

#include <hipvmm/region/region.hpp>
#include <hipvmm/vmm/idle/idle_memory.hpp>
#include "container/container_test.hpp"
#include "container/evictable/evictable_layer.hpp"
#include "support/host/host_test.hpp"
#include "support/region/region_contents.hpp"

namespace hipvmm::test {
namespace {

using layer = evictable_layer;

EVICTABLE_TEST_CASE("evictable: leaves for a request and returns with its contents") {
  layer one{32 * MiB};
  const void* const base = one.memory.base();
  request_bytes(48 * MiB);
  CHECK_FALSE(one.is_here());
  CHECK(one.is_right());
  CHECK(one.memory.base() == base);
  const evictable_statistics counted = one.held->statistics();
  CHECK(counted.evictions == 1);
  CHECK(counted.returns == 1);
  CHECK(counted.evicted_bytes == 32 * MiB);
  CHECK(counted.returned_bytes == 32 * MiB);
  CHECK(counted.refused_in_use == 0);
  CHECK(counted.reason.empty());
  CHECK(idle_memory().released_bytes == 32 * MiB);
  request_bytes(16 * MiB);
  CHECK(one.is_here());
}

EVICTABLE_TEST_CASE("evictable: idle memory goes first, then by priority and use") {
  mr::pool_options of_pool;
  of_pool.priority = 9;
  mr::vmm_pool_resource pool{first_device, of_pool};
  const stream stream;
  pool.deallocate(stream, pool.allocate(stream, 8 * MiB), 8 * MiB);
  stream.synchronize();
  layer high{8 * MiB, of_priority(1), 1};
  layer first{8 * MiB, of_priority(0), 2};
  layer second{8 * MiB, of_priority(0), 3};
  layer third{8 * MiB, of_priority(0), 4};
  layer low{8 * MiB, of_priority(-1), 5};
  const auto awake = [&] {
    std::string names;
    for (const layer* each : {&high, &first, &second, &third, &low})
      if (each->is_here()) names += static_cast<char>('0' + each->seed);
    return names;
  };
  CHECK(first.is_right());
  second.held->prefetch(stream);
  const auto request_alone = [](std::size_t bytes) {
    request_bytes(bytes);
    drain_retired_memory();
  };
  request_alone(24 * MiB);
  CHECK(awake() == "12345");
  CHECK(pool.usage().reserved_current == 0);
  request_alone(32 * MiB);
  CHECK(awake() == "1234");
  request_alone(40 * MiB);
  CHECK(awake() == "123");
  request_alone(48 * MiB);
  CHECK(awake() == "13");
  request_alone(56 * MiB);
  CHECK(awake() == "1");
  for (layer* each : {&low, &third, &second, &first, &high}) CHECK(each->is_right());
}

EVICTABLE_TEST_CASE("evictable: is left alone in a use, and while its work may run") {
  layer one{32 * MiB};
  blocked_stream busy{first_device};
  one.held->use(busy);
  const stream other;
  one.held->use(other, access_right::read);
  CHECK_FALSE(request_is_served(48 * MiB));
  one.held->done(other);
  CHECK_FALSE(request_is_served(48 * MiB));
  one.held->done(busy);
  CHECK_FALSE(request_is_served(48 * MiB));
  CHECK(one.held->statistics().refused_in_use >= 3);
  busy.release();
  first_device.synchronize();
  CHECK(request_is_served(48 * MiB));
  CHECK(one.is_right());
}

HIPVMM_TEST_CASE_IN("evictable: on AMD no event is recorded in an idle stream",
                    {"HIPVMM_HOST_PROFILE=rocm-7.2"}) {
  if (!can_sleep()) return;
  layer one{MiB};
  {
    const stream used;
    const call_counter records{"hipEventRecord"};
    one.held->use(used);
    one.held->done(used);
    CHECK(records.count() == 0);
  }
  const blocked_stream busy{first_device};
  const call_counter records{"hipEventRecord"};
  one.held->use(busy);
  one.held->done(busy);
  CHECK(records.count() == 1);
}

EVICTABLE_TEST_CASE("evictable: an eviction waits for no other work") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  layer one{32 * MiB};
  const blocked_stream busy{first_device};
  request_bytes(48 * MiB);
  CHECK_FALSE(one.is_here());
}

EVICTABLE_TEST_CASE("evictable: a use waits for the work of others, a prefetch does not") {
  layer first{40 * MiB, {}, 1};
  const stream stream;
  first.held->use(stream);
  growable_device_vector<char> vector{first_device};
  CHECK_THROWS_AS(vector.resize_uninitialized(40 * MiB), out_of_memory);
  first.held->done(stream);
  layer second{40 * MiB, {}, 2};
  CHECK_FALSE(first.is_here());
  blocked_stream busy{first_device};
  second.held->use(busy, access_right::read);
  second.held->done(busy);
  CHECK_THROWS_AS(first.held->prefetch(stream), out_of_memory);
  std::thread other{[&] { busy.release(); }};
  CHECK(first.is_right());
  other.join();
  CHECK_FALSE(second.is_here());
}

EVICTABLE_TEST_CASE("evictable: pools, arenas and vectors of a tag take part") {
  memory_tag tag;
  mr::pool_options of_pool;
  of_pool.tag = tag;
  mr::vmm_pool_resource pool{first_device, of_pool};
  slot_arena_options of_arena;
  of_arena.slots = 2;
  of_arena.bytes_per_slot = 8 * MiB;
  of_arena.tag = tag;
  slot_arena arena{first_device, of_arena};
  growth_options of_vector;
  of_vector.chunks.tag = tag;
  growable_device_vector<char> vector{first_device, of_vector};
  evictable held{tag, first_device};
  blocked_stream busy{first_device};
  const stream stream;
  CHECK_THROWS_AS(vector.resize_uninitialized(8 * MiB), std::logic_error);
  CHECK_THROWS_AS(arena.commit(std::vector<std::size_t>{arena.acquire(stream)},
                               std::vector<std::size_t>{MiB}, stream),
                  std::logic_error);
  void* block = nullptr;
  void* small = nullptr;
  {
    const scoped_use use{held, stream};
    block = pool.allocate(stream, 8 * MiB);
    small = pool.allocate(stream, 256 * KiB);
    pool.deallocate(stream, pool.allocate(stream, 256 * KiB), 256 * KiB);
    void* const freed = pool.allocate(busy, 8 * MiB);
    pool.deallocate(busy, freed, 8 * MiB);  // no work of `busy` uses it
    const std::size_t slot = arena.acquire(stream);
    arena.commit(std::vector<std::size_t>{slot}, std::vector<std::size_t>{8 * MiB}, stream);
    vector.resize_uninitialized(8 * MiB);
    fill_async(stream, block, 7, 8 * MiB);
  }
  // The caches of the pool have blocks of the size.
  for (const std::size_t bytes : {256 * KiB, 8 * MiB})
    CHECK_THROWS_WITH_AS(static_cast<void>(pool.allocate(stream, bytes)),
                         doctest::Contains("may be evicted"), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(pool.allocate_sync(MiB)), std::logic_error);
  of_pool.initial_bytes = MiB;
  CHECK_THROWS_AS((mr::vmm_pool_resource{first_device, of_pool}), std::logic_error);
  pool.deallocate(stream, small, 256 * KiB);
  stream.synchronize();
  if (quirks::unmap_waits.holds()) busy.release();
  request_bytes(60 * MiB);
  CHECK(tag.is_asleep());
  CHECK_THROWS_AS(static_cast<void>(pool.allocate(stream, 8 * MiB)), std::logic_error);
  busy.release();
  {
    const scoped_use use{held, stream};
    CHECK(read_bytes(stream, block, 16) == std::vector<unsigned char>(16, 7));
    vector.resize_uninitialized(16 * MiB);
    pool.deallocate(stream, block, 8 * MiB);
  }
  first_device.synchronize();
}

EVICTABLE_TEST_CASE("evictable: what was only read is not copied again") {
  layer one{32 * MiB};
  const auto copies_of_eviction = [] {
    const call_counter copies{"hipMemcpyAsync"};
    request_bytes(48 * MiB);
    return copies.count();
  };
  CHECK(copies_of_eviction() > 0);
  CHECK(one.is_right());
  CHECK(copies_of_eviction() == 0);
  CHECK(one.is_right(access_right::read_write));
  CHECK(copies_of_eviction() > 0);
  CHECK(one.is_right());
  prepare_suspend(one.tag, keep::nothing);  // the copy goes
  CHECK(copies_of_eviction() > 0);
  CHECK(one.is_right());
  const stream stream;
  one.held->use(stream, access_right::read);
  one.memory.decommit(0, granule());
  one.memory.commit(0, granule());
  write_tag(one.memory, 0, one.seed, stream);
  one.held->done(stream);
  one.held->use(stream);
  one.held->done(stream);
  stream.synchronize();
  CHECK(copies_of_eviction() > 0);
  CHECK(one.is_right());
}

EVICTABLE_TEST_CASE("evictable: a function of the program brings the contents back") {
  layer* filled = nullptr;
  int calls = 0;
  bool fails = false;
  evictable_options options;
  options.fill = [&](stream_ref stream) {
    ++calls;
    if (fails) throw std::runtime_error{"no file"};
    write_tag(filled->memory, 0, 9, stream);
    write_tag(filled->memory, filled->last(), 9, stream);
  };
  layer one{32 * MiB, options};
  filled = &one;
  CHECK(one.is_right());
  CHECK(calls == 0);
  request_bytes(48 * MiB);
  CHECK(one.tag.statistics().bytes_on_host == 0);
  fails = true;
  const stream stream;
  CHECK_THROWS_WITH_AS(one.held->use(stream), "no file", std::runtime_error);
  fails = false;
  one.held->prefetch(stream);
  CHECK(calls == 2);
  one.seed = 9;
  CHECK(one.is_right());
  CHECK(calls == 2);
  fails = true;
  request_bytes(48 * MiB);
  CHECK_THROWS_AS(one.held->use(stream), std::runtime_error);
  // Memory without contents is evicted too.
  request_bytes(48 * MiB);
  CHECK_FALSE(one.is_here());
  fails = false;
  CHECK(one.is_right());
}

EVICTABLE_TEST_CASE("evictable: file and pageable memory") {
  evictable_options options;
  options.storage = {sleep_storage::file, {}, "/dev/shm"};
  layer first{16 * MiB, options, 1};
  options.storage = {sleep_storage::pageable};
  layer second{16 * MiB, options, 2};
  request_bytes(60 * MiB);
  CHECK(first.tag.statistics().bytes_on_disk == 16 * MiB);
  for (int i = 0; i < 2; ++i) {
    CHECK(first.is_right());
    CHECK(second.is_right());
    request_bytes(60 * MiB);
  }
}

EVICTABLE_TEST_CASE("evictable: a request that would fail nevertheless evicts nothing") {
  layer first{12 * MiB, {}, 1};
  layer second{20 * MiB, {}, 2};
  region rest{first_device, 128 * MiB};
  rest.commit(0, 16 * MiB);
  CHECK_FALSE(request_is_served(56 * MiB));
  CHECK_THROWS_AS(rest.commit(16 * MiB, 48 * MiB + granule(), 2 * MiB), out_of_memory);
  CHECK(first.held->statistics().evictions + second.held->statistics().evictions == 0);
  request_bytes(48 * MiB);
  CHECK_FALSE(first.is_here());
  CHECK_FALSE(second.is_here());
  // The same for a return, chunk by chunk.
  const memory_tag tag;
  region large{first_device, 40 * MiB, tagged_by(tag)};
  large.commit(0, 40 * MiB, 2 * MiB);
  const evictable returning{tag, first_device};
  CHECK(first.is_right());
  drain_retired_memory();
  CHECK(tag.is_asleep());
  const stream stream;
  first.held->prefetch(stream);
  {
    region more{first_device, 12 * MiB};
    more.commit(0, 12 * MiB);
    CHECK_THROWS_AS(resume(tag), out_of_memory);
    CHECK(first.is_here());
  }
  resume(tag);
  CHECK_FALSE(first.is_here());
}

EVICTABLE_TEST_CASE("evictable: memory that cannot sleep is passed over, with the reason") {
  const memory_tag tag;
  region_options options = tagged_by(tag);
  options.shareable = handle_type::posix_fd;
  region shared{first_device, 16 * MiB, options};
  shared.commit(0, 16 * MiB);
  static_cast<void>(shared.export_chunks());
  const evictable held{tag, first_device};
  const layer two{16 * MiB, of_priority(1)};
  request_bytes(48 * MiB);
  CHECK_FALSE(tag.is_asleep());
  CHECK_FALSE(two.is_here());
  CHECK(held.statistics().refused_by_failure > 0);
  CHECK(held.statistics().reason.find("exported") != std::string::npos);
}

EVICTABLE_TEST_CASE("evictable: misuse is refused") {
  layer one{8 * MiB};
  const stream stream;
  CHECK_THROWS_AS(one.held->done(stream), std::logic_error);
  CHECK_THROWS_AS((evictable{one.tag, first_device}), std::invalid_argument);
  evictable_options with_stream;
  with_stream.storage.stream = stream;
  CHECK_THROWS_AS((evictable{memory_tag{}, first_device, with_stream}), std::invalid_argument);
  CHECK_THROWS_AS((evictable{memory_tag{}, device_ref{64}}), std::invalid_argument);
  CHECK_THROWS_AS(one.memory.decommit(0, 8 * MiB), std::logic_error);
  const scoped_use use{*one.held, stream};
  hipvmm::stream captured;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeThreadLocal) == hipSuccess);
  CHECK_THROWS_AS(one.held->use(captured), std::invalid_argument);
  CHECK_THROWS_AS(one.held->done(captured), std::invalid_argument);
  end_capture(captured.get());
  evictable moved{std::move(*one.held)};
  CHECK_THROWS_AS(one.held->use(stream), std::invalid_argument);
  *one.held = std::move(moved);
  evictable& same = *one.held;
  *one.held = std::move(same);
  CHECK(one.held->device() == first_device);
}

EVICTABLE_TEST_CASE("evictable: uses cost no capture under way") {
  layer one{32 * MiB};
  const stream stream;
  hipvmm::stream captured;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  for (int i = 0; i < 3; ++i) {
    one.held->use(stream);
    one.held->done(stream);
  }
  end_capture(captured.get());
}

EVICTABLE_TEST_CASE("evictable: suspend and resume of the program mix with it") {
  layer one{16 * MiB};
  suspend(one.tag, keep::contents);
  CHECK(one.is_right());
  request_bytes(60 * MiB);
  resume(one.tag);
  CHECK(one.is_right());
  request_bytes(60 * MiB);
  one.held.reset();
  CHECK_FALSE(one.is_here());
  resume(one.tag);
  CHECK(one.has_contents());
  one.memory.decommit(0, 16 * MiB);
}

EVICTABLE_TEST_CASE("evictable: a use that woke the memory keeps what an older one writes") {
  layer one{16 * MiB};
  const stream stream;
  one.held->use(stream);
  suspend(one.tag, keep::contents, {sleep_storage::pinned_kept});
  one.held->use(stream, access_right::read);
  one.seed = 5;
  write_tag(one.memory, 0, one.seed, stream);
  write_tag(one.memory, one.last(), one.seed, stream);
  one.held->done(stream);
  one.held->done(stream);
  stream.synchronize();
  request_bytes(60 * MiB);
  CHECK_FALSE(one.is_here());
  CHECK(one.is_right());
}

EVICTABLE_TEST_CASE("evictable: the function that fills may call all that a use may") {
  const memory_tag tag;
  growth_options of_vector;
  of_vector.chunks.tag = tag;
  growable_device_vector<char> vector{first_device, of_vector};
  const std::vector<char> contents(16 * MiB, 'a');
  const stream stream;
  vector.append(contents, stream);
  evictable_options options;
  bool fails = false;
  options.fill = [&](stream_ref in) {
    vector.clear();
    vector.append(contents, in);
    if (fails) throw std::runtime_error{"no file"};
  };
  evictable held{tag, first_device, options};
  for (const bool each : {true, false}) {
    fails = each;
    stream.synchronize();
    request_bytes(60 * MiB);
    CHECK(tag.is_asleep());
    if (fails)
      CHECK_THROWS_AS(held.prefetch(stream), std::runtime_error);
    else
      held.prefetch(stream);
    CHECK_THROWS_AS(vector.append(contents, stream), std::logic_error);
  }
  held.use(stream);
  CHECK(vector.copy_to_host(stream) == contents);
  held.done(stream);
}

EVICTABLE_TEST_CASE("evictable: uses evict each other, never their own memory") {
  layer first{40 * MiB, {}, 1};
  const stream stream;
  std::optional<layer> second{std::in_place, 40 * MiB, evictable_options{}, 2};
  for (int i = 0; i < 2; ++i) {
    CHECK(first.is_right());
    CHECK_FALSE(second->is_here());
    CHECK(second->is_right());
    CHECK_FALSE(first.is_here());
  }
  {
    const scoped_use use{*second->held, stream};
    CHECK_THROWS_AS(first.held->use(stream), out_of_memory);
    CHECK_FALSE(first.is_here());
    CHECK(second->is_here());
  }
  CHECK(first.is_right());
  // A request of the tag's own memory in a use.
  second.reset();
  memory_tag tag;
  growth_options of_vector;
  of_vector.chunks.tag = tag;
  growable_device_vector<char> vector{first_device, of_vector};
  evictable held{tag, first_device};
  const scoped_use use{held, stream};
  vector.resize_uninitialized(48 * MiB);
  CHECK_FALSE(first.is_here());
  CHECK_THROWS_AS(vector.resize_uninitialized(72 * MiB), out_of_memory);
}

}  // namespace
}  // namespace hipvmm::test
