// SPDX-License-Identifier: MIT
// Evictions beside other threads' calls, and requests made within callbacks.
#include <hipvmm/provider/host_control.h>

#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include "container/container_test.hpp"
#include "container/evictable/evictable_layer.hpp"
#include "support/host/host_test.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* device_of_threads = "HIPVMM_HOST_MEMORY=64MiB";

/// Calls a function each time that memory is to be unmapped.
class unmap_watcher final : public memory_registrar {
 public:
  void add(const mapped_memory&) override {}
  void remove(const mapped_memory&) noexcept override {
    if (on_unmap) on_unmap();
  }
  std::function<void()> on_unmap;
};

EVICTABLE_TEST_CASE("evictable: calls outside a use wait for an eviction in another thread") {
  const memory_tag tag;
  const auto watcher = std::make_shared<unmap_watcher>();
  growth_options of_vector;
  of_vector.chunks.tag = tag;
  of_vector.chunks.registrar = watcher;
  growable_device_vector<char> vector{first_device, of_vector};
  slot_arena_options of_arena;
  of_arena.slots = 4;
  of_arena.bytes_per_slot = 2 * MiB;
  of_arena.tag = tag;
  slot_arena arena{first_device, of_arena};
  const stream stream;
  vector.resize(8 * MiB, stream);
  const std::size_t first = arena.acquire(stream);
  const std::size_t second = arena.acquire(stream);
  arena.commit(std::vector{first, second}, std::vector<std::size_t>{2 * MiB, 2 * MiB}, stream);
  stream.synchronize();
  const evictable held{tag, first_device};
  const std::vector<std::function<void()>> calls{
      [&] { CHECK(vector.capacity() == 8 * MiB); },
      [&] { CHECK(vector.chunks().empty()); },
      [&] { CHECK(vector.statistics().chunks == 0); },
      [&] { CHECK_FALSE(vector.explain().empty()); },
      [&] { CHECK(arena.statistics().held_bytes == 0); },
      [&] { CHECK(arena.slots_that_fit(MiB) >= 1); },
      [&] { arena.truncate(first, 1, hipvmm::stream{}); },
      [&] { arena.release(second, hipvmm::stream{}); }};
  std::vector<std::unique_ptr<watched_thread>> callers;
  watcher->on_unmap = [&] {
    if (!callers.empty()) return;
    for (const auto& each : calls) {
      callers.push_back(std::make_unique<watched_thread>([&each] { each(); }));
      CHECK(callers.back()->comes_to_wait());
    }
  };
  request_bytes(56 * MiB);
  CHECK(tag.is_asleep());
  for (const auto& each : callers) each->join();
  CHECK(callers.size() == calls.size());
  watcher->on_unmap = nullptr;
}

EVICTABLE_TEST_CASE("evictable: memory stays, and serves calls, if nothing shows the fill's end") {
  const memory_tag tag;
  growth_options of_vector;
  of_vector.chunks.tag = tag;
  growable_device_vector<char> vector{first_device, of_vector};
  vector.resize_uninitialized(16 * MiB);
  const stream works{first_device};
  std::optional<planned_faults> faults;
  evictable_options options;
  options.fill = [&](stream_ref) {
    faults.emplace(
        "hipStreamQuery error=hipErrorUnknown; hipEventRecord error=hipErrorUnknown; "
        "hipStreamSynchronize error=hipErrorUnknown");
  };
  evictable held{tag, first_device, options};
  request_bytes(60 * MiB);
  CHECK(tag.is_asleep());
  CHECK_THROWS_AS(held.use(works), hip_error);
  faults.reset();
  CHECK_FALSE(request_is_served(60 * MiB));
  CHECK_NOTHROW(vector.append({'a', 'b'}, works));
}

EVICTABLE_TEST_CASE("evictable: two functions that fill may request each other's memory") {
  std::atomic<int> filling{0};
  std::atomic<int> ended{0};
  evictable_options options;
  options.fill = [&](stream_ref) {
    ++filling;
    CHECK(comes_true([&] { return filling == 2; }));
    static_cast<void>(request_is_served(20 * MiB));
    ++ended;
  };
  evictable_layer first{24 * MiB, options, 1};
  evictable_layer second{24 * MiB, options, 2};
  request_bytes(60 * MiB);
  const auto use = [](evictable_layer& one) {
    const stream stream;
    const scoped_use held{*one.held, stream};
  };
  watched_thread other{[&] { use(second); }};
  use(first);
  other.join();
  CHECK(ended == 2);
  CHECK(request_is_served(60 * MiB));
}

EVICTABLE_TEST_CASE("evictable: a request gets what another thread evicts meanwhile") {
  const memory_tag tag;
  const auto watcher = std::make_shared<unmap_watcher>();
  region_options tagged = tagged_by(tag);
  tagged.registrar = watcher;
  region memory{first_device, 24 * MiB, tagged};
  memory.commit(0, 24 * MiB);
  evictable held{tag, first_device};
  evictable_layer behind{24 * MiB, of_priority(1), 2};
  const stream stream;
  for (const bool needs_both : {false, true}) {
    std::optional<scoped_use> use{std::in_place, *behind.held, stream};
    held.prefetch(stream);
    if (needs_both) use.reset();
    stream.synchronize();
    bool is_served = false;
    std::unique_ptr<watched_thread> other;
    watcher->on_unmap = [&] {
      if (other) return;
      const call_counter creations{"hipMemCreate"};
      other = std::make_unique<watched_thread>(
          [&] { is_served = request_is_served(needs_both ? 44 * MiB : 20 * MiB); });
      CHECK(comes_true([&] {
        return needs_both ? !behind.is_here() || other->is_over() : creations.count() != 0;
      }));
    };
    request_bytes(20 * MiB);
    REQUIRE(other);
    other->join();
    watcher->on_unmap = nullptr;
    CHECK(is_served);
    CHECK(behind.is_here() != needs_both);
  }
}

EVICTABLE_TEST_CASE("evictable: calls of its own in its callbacks are refused") {
  evictable* of = nullptr;
  int refused = 0;
  const auto call_all = [&] {
    const stream stream;
    for (void (*const each)(evictable&, stream_ref) :
         {+[](evictable&one, stream_ref in) { one.use(in); },
          +[](evictable&one, stream_ref in) { one.done(in); },
          +[](evictable&one, stream_ref in) { one.prefetch(in); }}) {
      try {
        each(*of, stream);
      } catch (const std::logic_error&) {
        ++refused;
      }
    }
    CHECK(of->statistics().evictions <= 1);
    CHECK_FALSE(request_is_served(64 * MiB));
  };
  const auto watcher = std::make_shared<unmap_watcher>();
  evictable_options options;
  options.fill = [&](stream_ref) { call_all(); };
  const memory_tag tag;
  region_options tagged = tagged_by(tag);
  tagged.registrar = watcher;
  region memory{first_device, 32 * MiB, tagged};
  memory.commit(0, 32 * MiB);
  evictable held{tag, first_device, options};
  of = &held;
  watcher->on_unmap = call_all;
  request_bytes(48 * MiB);
  watcher->on_unmap = nullptr;
  CHECK(tag.is_asleep());
  const stream stream;
  held.prefetch(stream);
  CHECK_FALSE(tag.is_asleep());
  CHECK(refused == 6);
}

EVICTABLE_TEST_CASE("evictable: an eviction does not wait for a request that waits for work") {
  const memory_tag tag;
  mr::pool_options options;
  options.tag = tag;
  options.maximum_bytes = 8 * MiB;
  mr::vmm_pool_resource pool{first_device, options};
  evictable held{tag, first_device};
  const stream stream;
  blocked_stream busy{first_device};
  held.use(stream);
  pool.deallocate(busy, pool.allocate(busy, 8 * MiB), 8 * MiB);
  void* block = nullptr;
  watched_thread request{[&] { block = pool.allocate_sync(8 * MiB); }};
  REQUIRE(request.comes_to_wait());
  held.done(stream);  // too early
  CHECK_FALSE(request_is_served(60 * MiB));
  CHECK_FALSE(tag.is_asleep());
  busy.release();
  request.join();
  pool.deallocate(stream, block, 8 * MiB);
}

EVICTABLE_TEST_CASE("evictable: a use that waits for work blocks no other use") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  evictable_layer asleep{20 * MiB, {}, 1};
  request_bytes(48 * MiB);
  REQUIRE_FALSE(asleep.is_here());
  drain_retired_memory();
  evictable_layer stuck{24 * MiB, {}, 2};
  evictable_layer busy{24 * MiB, {}, 3};
  blocked_stream of_stuck{first_device};
  blocked_stream of_busy{first_device};
  const stream stream;
  const auto use_in = [](evictable_layer& one, stream_ref in) {
    one.held->use(in, access_right::read);
    one.held->done(in);
  };
  use_in(stuck, of_stuck);
  use_in(busy, of_busy);
  // It gets the memory of that whose work ends first.
  watched_thread other{[&] { use_in(asleep, stream); }};
  CHECK(other.comes_to_wait());
  of_busy.release();
  CHECK(comes_true([&] { return other.is_over(); }));
  CHECK_FALSE(busy.is_here());
  CHECK(stuck.is_here());
  if (!other.is_over()) of_stuck.release();
  other.join();
  // And none of what is used again meanwhile.
  asleep.held->use(stream);
  std::atomic<bool> is_refused{false};
  watched_thread waiting{[&] {
    try {
      use_in(busy, stream);
    } catch (const out_of_memory&) {
      is_refused = true;
    }
  }};
  CHECK(waiting.comes_to_wait());
  watched_thread user{[&] { stuck.held->use(stream, access_right::read); }};
  CHECK(comes_true([&] { return user.is_over(); }));
  of_stuck.release();
  user.join();
  waiting.join();
  CHECK(is_refused);
  CHECK(stuck.has_contents());
  stuck.held->done(stream);
  asleep.held->done(stream);
  for (evictable_layer* each : {&asleep, &stuck, &busy}) CHECK(each->is_right());
}

#ifndef __SANITIZE_THREAD__  // the race that the checker has to find
HIPVMM_TEST_CASE_IN("evictable: the order checker finds a done() that names another stream",
                    {device_of_threads, "HIPVMM_HOST_CHECK=1"}) {
  if (!can_sleep()) return;
  HIPVMM_SKIP_UNDER(unmap_waits);  // which makes the work known as finished
  for (const bool fills : {false, true}) {
    evictable_options options;
    if (fills) options.fill = [](stream_ref) {};
    evictable_layer one{32 * MiB, options};
    const stream works;
    const stream named;
    for (const bool is_early : {false, true}) {
      one.held->use(works);
      fill_async(works, one.memory.base(), 1, granule());
      one.held->done(is_early ? named : works);
      if (!is_early) works.synchronize();
      request_bytes(48 * MiB);
      CHECK_FALSE(one.is_here());
      CHECK((hipvmm_host_order_reports() != 0) == is_early);
    }
    hipvmm_host_clear_order_reports();
  }
}
#endif

EVICTABLE_TEST_CASE("evictable: a use that waits for work takes what others release") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  evictable_layer asleep{20 * MiB, {}, 1};
  request_bytes(48 * MiB);
  REQUIRE_FALSE(asleep.is_here());
  drain_retired_memory();
  evictable_layer stuck{24 * MiB, {}, 2};
  physical_chunk of_others{first_device, 24 * MiB};
  blocked_stream work{first_device};
  stuck.held->use(work, access_right::read);
  stuck.held->done(work);
  std::atomic<bool> is_refused{false};
  const stream stream;
  watched_thread user{[&] {
    try {
      asleep.held->use(stream);
    } catch (const out_of_memory&) {
      is_refused = true;
    }
  }};
  CHECK(user.comes_to_wait());
  of_others = {};
  CHECK(comes_true([&] { return user.is_over(); }));
  CHECK(stuck.is_here());
  work.release();
  user.join();
  CHECK_FALSE(is_refused);
  if (!is_refused) asleep.held->done(stream);
}

EVICTABLE_TEST_CASE("evictable: memory that an eviction could not map again is evicted later") {
  const memory_tag tag;
  const stream stream;
  region first{first_device, 16 * MiB, tagged_by(tag)};
  region second{first_device, 16 * MiB, tagged_by(tag)};
  for (region* const each : {&first, &second}) {
    each->commit(0, 16 * MiB);
    write_tag(*each, 0, 3, stream);
  }
  evictable held{tag, first_device};
  stream.synchronize();
  const error_recorder reported;
  {
    const planned_faults faults{
        "hipMemUnmap nth=2 error=hipErrorOperatingSystem; "
        "hipMemMap error=hipErrorOperatingSystem"};
    CHECK_FALSE(request_is_served(48 * MiB));
    CHECK(tag.is_asleep());  // it holds all of its memory
    const std::uint64_t failures = held.statistics().refused_by_failure;
    CHECK_FALSE(request_is_served(48 * MiB));
    CHECK(held.statistics().refused_by_failure > failures);
    CHECK(held.statistics().evictions == 0);
  }
  CHECK(request_is_served(48 * MiB));
  CHECK(held.statistics().evictions == 1);
  CHECK(held.statistics().evicted_bytes == 32 * MiB);
  const scoped_use use{held, stream};
  CHECK(has_tag(first, 0, 3, stream));
  CHECK(has_tag(second, 0, 3, stream));
}

EVICTABLE_TEST_CASE("evictable: the slack of a growth evicts nothing") {
  const evictable_layer stays{28 * MiB};
  growable_device_vector<char> vector{first_device};
  vector.reserve(34 * MiB);
  vector.resize_uninitialized(34 * MiB);
  // 2 MiB are free: for the request, and not for an eighth of the vector.
  vector.resize_uninitialized(36 * MiB);
  CHECK(vector.capacity() == 36 * MiB);
  CHECK(stays.is_here());
}

EVICTABLE_TEST_CASE("evictable: callbacks of its calls may wait for a thread that uses it") {
  evictable_layer asleep{16 * MiB};
  request_bytes(56 * MiB);
  drain_retired_memory();
  REQUIRE_FALSE(asleep.is_here());
  const stream stream;
  bool was_served = false;
  std::future<void> other;
  const memory_event_subscription events{[&](const memory_event&) {
    if (other.valid()) return;
    other = std::async(std::launch::async, [&] { asleep.held->prefetch(hipvmm::stream{}); });
    was_served = other.wait_for(std::chrono::seconds{1}) == std::future_status::ready;
  }};
  asleep.held->prefetch(stream);
  REQUIRE(other.valid());
  other.get();
  CHECK(was_served);
}

EVICTABLE_TEST_CASE("evictable: one that is made waits for work that has no use") {
  const memory_tag tag;
  region memory{first_device, 8 * MiB, tagged_by(tag)};
  memory.commit(0, 8 * MiB);
  blocked_stream busy{first_device};
  auto made = std::async(std::launch::async, [&] { return evictable{tag, first_device}; });
  CHECK(made.wait_for(std::chrono::milliseconds{50}) == std::future_status::timeout);
  busy.release();
  const evictable held = made.get();
  request_bytes(60 * MiB);
  CHECK(held.statistics().evictions == 1);
}

EVICTABLE_TEST_CASE("evictable: one that fills does so if the program's suspend() kept nothing") {
  const memory_tag tag;
  region memory{first_device, 8 * MiB, tagged_by(tag)};
  memory.commit(0, 8 * MiB);
  int fills = 0;
  evictable_options options;
  options.fill = [&](stream_ref) { ++fills; };
  evictable held{tag, first_device, options};
  const stream stream;
  const auto suspend_and_use = [&](keep what) {
    suspend(tag, what);
    const scoped_use use{held, stream};
    return fills;
  };
  CHECK(suspend_and_use(keep::contents) == 0);
  CHECK(suspend_and_use(keep::nothing) == 1);
  CHECK(suspend_and_use(keep::contents) == 1);
}

}  // namespace
}  // namespace hipvmm::test
