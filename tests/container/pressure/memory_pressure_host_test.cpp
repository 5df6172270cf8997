// SPDX-License-Identifier: MIT
// Watermarks: which crossings are reported, by which thread, and callbacks that use the library.
#include <hipvmm/vmm/idle/pressure_subscription.hpp>

#include <unistd.h>

#include <condition_variable>

#include <hipvmm/region/sleep/evictable.hpp>
#include "container/container_test.hpp"
#include "container/pressure/pressure_marks.hpp"
#include "support/host/host_test.hpp"
#include "support/process/forked_child.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test {
namespace {

using namespace pressure_marks;

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("pressure: a level is reported once for each crossing, with figures and the reason") {
  pressure_subscription pressure{first_device, within_64()};
  const std::size_t before = held_bytes();
  CHECK_FALSE(pressure.wait(a_moment));
  bytes_vector vector = vector_of(50 * MiB);
  const auto high = pressure.wait(longest);
  REQUIRE(high);
  CHECK(high->device == first_device.ordinal());
  CHECK(high->level == pressure_level::high);
  CHECK(high->previous == pressure_level::none);
  CHECK(high->bound == exhausted::limit);
  CHECK(high->total_bytes == before + 64 * MiB);
  CHECK(high->free_bytes == 14 * MiB);
  CHECK(high->held_bytes == before + 50 * MiB);
  CHECK(high->largest_request == high->free_bytes + high->idle_bytes);
  REQUIRE(high->reason);
  CHECK(high->reason->kind == memory_event_kind::grow);
  CHECK(high->reason->source == memory_event_source::vector);
  CHECK(high->reason->object == vector.event_id());
  CHECK(high->reason->bytes == 50 * MiB);
  vector.resize_uninitialized(52 * MiB);
  CHECK_FALSE(pressure.wait(a_moment));
  vector = {};
  release_idle_memory();
  const auto none = pressure.wait(longest);
  REQUIRE(none);
  CHECK(none->level == pressure_level::none);
  CHECK(none->previous == pressure_level::high);
  CHECK(none->free_bytes > 32 * MiB);
  const std::vector<memory_event> reasons = pressure.reasons();
  CHECK(reasons.size() >= 3);
  CHECK_FALSE(pressure.wait({}));
  CHECK(held_bytes() == before);
}

TEST_CASE("pressure: a level ends only when more than its mark and the hysteresis is free") {
  pressure_options options = within_64();
  options.hysteresis = 8.0 * MiB / static_cast<double>(options.limit);
  pressure_subscription pressure{first_device, options};
  std::vector<bytes_vector> vectors;
  for (int i = 0; i < 9; ++i) vectors.push_back(vector_of(4 * MiB));
  const auto low = pressure.wait(longest);
  REQUIRE(low);
  CHECK(low->level == pressure_level::low);
  const auto drop = [&] {
    vectors.pop_back();
    held_bytes();
  };
  drop();  // 32 MiB are free
  drop();
  drop();  // 40 MiB are
  CHECK_FALSE(pressure.wait(a_moment));
  CHECK(pressure.now().level == pressure_level::low);
  drop();
  const auto none = pressure.wait(longest);
  REQUIRE(none);
  CHECK(none->level == pressure_level::none);
}

TEST_CASE("pressure: the thread whose request passed the mark calls when it has been served") {
  noted notes;
  std::unique_ptr<bytes_vector> vector;
  std::size_t seen = 0;
  pressure_subscription pressure{first_device,
                                 [&](const pressure_note& note) {
                                   if (note.level == pressure_level::critical)
                                     seen = vector->capacity();
                                   notes(note);
                                 },
                                 in_request()};
  vector = std::make_unique<bytes_vector>(vector_of(2 * MiB));
  CHECK(notes.count() == 0);
  vector->resize_uninitialized(60 * MiB);
  REQUIRE(notes.count() == 1);
  CHECK(notes.at(0).second == std::this_thread::get_id());
  CHECK(notes.at(0).first.level == pressure_level::critical);
  CHECK(seen == 60 * MiB);
  // This thread or the library's releases it.
  vector.reset();
  REQUIRE(notes.has(2));
  CHECK(notes.at(1).first.level == pressure_level::none);
}

TEST_CASE("pressure: a pool reports its requests, and the callback may use it") {
  mr::vmm_pool_resource pool{first_device};
  const stream stream;
  noted notes;
  pressure_subscription pressure{first_device,
                                 [&](const pressure_note& note) {
                                   notes(note);
                                   pool.trim_to(0);
                                   pool.deallocate(stream, pool.allocate(stream, 256), 256);
                                 },
                                 in_request()};
  void* const block = pool.allocate(stream, 40 * MiB);
  // A trim may have ended that level.
  REQUIRE(notes.count() >= 1);
  const auto [first, thread] = notes.at(0);
  CHECK(thread == std::this_thread::get_id());
  REQUIRE(first.reason);
  CHECK(first.reason->source == memory_event_source::pool);
  CHECK(first.reason->object == pool.event_id());
  CHECK(first.reason->stream == reinterpret_cast<std::uintptr_t>(stream.get()));
  pool.deallocate(stream, block, 40 * MiB);
}

TEST_CASE("pressure: an arena's commit reports, and the callback may use the arena") {
  slot_arena arena{first_device, {.slots = 8, .bytes_per_slot = 8 * MiB, .prefetch_blocks = 0}};
  const stream stream;
  noted notes;
  std::vector<std::size_t> lengths;
  const auto owner = std::this_thread::get_id();
  pressure_subscription pressure{first_device,
                                 [&](const pressure_note& note) {
                                   notes(note);
                                   // The library's thread reports the trim, beside this case.
                                   if (std::this_thread::get_id() != owner) return;
                                   for (std::size_t slot = 0; slot < 5; ++slot)
                                     lengths.push_back(arena.length(slot));
                                   arena.release(0, stream);
                                   arena.trim();
                                 },
                                 in_request()};
  arena.commit(std::vector<std::size_t>{0, 1, 2, 3, 4}, std::vector<std::size_t>(5, 8 * MiB),
               stream);
  REQUIRE(notes.count() >= 1);
  CHECK(notes.at(0).second == std::this_thread::get_id());
  CHECK(std::vector(lengths.begin(), lengths.begin() + 5) == std::vector<std::size_t>(5, 8 * MiB));
  REQUIRE(notes.at(0).first.reason);
  CHECK(notes.at(0).first.reason->kind == memory_event_kind::grow);
  CHECK(notes.at(0).first.reason->source == memory_event_source::region);
  pressure.end();
  CHECK_FALSE(arena.in_use(0));
}

TEST_CASE("pressure: idle memory of pools and what would fit are in the note") {
  mr::vmm_pool_resource pool{first_device};
  const stream stream;
  pressure_subscription pressure{first_device, within_64()};
  void* const block = pool.allocate(stream, 32 * MiB);
  REQUIRE(pressure.wait(longest));
  pool.deallocate(stream, block, 32 * MiB);
  const pressure_note now = pressure.now();
  CHECK(now.level == pressure_level::low);
  CHECK(now.previous == now.level);
  CHECK(now.idle_bytes >= 32 * MiB);
  CHECK(now.largest_request == now.free_bytes + now.idle_bytes);
}

TEST_CASE("pressure: idle memory that an evictable counts too is within the memory held") {
  const memory_tag tag;
  mr::pool_options options;
  options.tag = tag;
  mr::vmm_pool_resource pool{first_device, options};
  evictable kept{tag, first_device};
  const stream stream;
  kept.use(stream);
  pool.deallocate(stream, pool.allocate(stream, 32 * MiB), 32 * MiB);
  kept.done(stream);
  stream.synchronize();
  const pressure_note now = pressure_subscription{first_device}.now();
  CHECK(now.idle_bytes >= 32 * MiB);
  CHECK(now.idle_bytes <= now.held_bytes);
}

TEST_CASE("pressure: what a callback throws is reported, and later notes come") {
  const error_recorder errors;
  noted notes;
  pressure_subscription pressure{first_device,
                                 [&](const pressure_note& note) {
                                   notes(note);
                                   if (notes.count() == 1) throw std::runtime_error{"refused"};
                                   throw 5;
                                 },
                                 in_request()};
  const bytes_vector first = vector_of(40 * MiB);
  const bytes_vector second = vector_of(10 * MiB);
  CHECK(notes.count() == 2);
  REQUIRE(errors.count() == 2);
  CHECK(errors.errors()[0].call == "pressure_subscription");
  CHECK(errors.errors()[0].message == "the callback threw: refused");
}

TEST_CASE("pressure: a callback ends its own subscription and makes another") {
  for (const auto delivery :
       {pressure_delivery::library_thread, pressure_delivery::requesting_thread}) {
    std::atomic<int> first_calls{0};
    noted second_notes;
    std::optional<pressure_subscription> first;
    std::optional<pressure_subscription> second;
    pressure_options options = within_64();
    options.delivery = delivery;
    first.emplace(
        first_device,
        [&](const pressure_note&) {
          second.emplace(first_device, second_notes.callback(), options);
          first->end();
          ++first_calls;
        },
        options);
    bytes_vector vector = vector_of(40 * MiB);
    REQUIRE(second_notes.has(1));  // a mark that is passed already
    vector.resize_uninitialized(60 * MiB);
    REQUIRE(second_notes.has(2));
    while (first_calls == 0) std::this_thread::yield();
    CHECK(first_calls == 1);
    second.reset();
    first.reset();
  }
}

TEST_CASE("pressure: the end waits for a callback in another thread") {
  for (const auto delivery :
       {pressure_delivery::library_thread, pressure_delivery::requesting_thread}) {
    std::atomic<bool> runs{false};
    std::atomic<bool> has_returned{false};
    pressure_options options = within_64();
    options.delivery = delivery;
    auto pressure = std::make_unique<pressure_subscription>(
        first_device,
        [&](const pressure_note&) {
          runs = true;
          std::this_thread::sleep_for(a_moment);
          has_returned = true;
        },
        options);
    std::thread user{[&] {
      const bytes_vector vector = vector_of(40 * MiB);
      while (!runs) std::this_thread::yield();
    }};
    while (!runs) std::this_thread::yield();
    pressure.reset();
    CHECK(has_returned);
    user.join();
    held_bytes();
  }
}

TEST_CASE("pressure: a callback that passes the marks again and again holds up no request") {
  for (const auto delivery :
       {pressure_delivery::library_thread, pressure_delivery::requesting_thread}) {
    std::atomic<int> calls{0};
    pressure_options options = within_64();
    options.delivery = delivery;
    std::optional<bytes_vector> more;
    pressure_subscription pressure{first_device,
                                   [&](const pressure_note& note) {
                                     ++calls;
                                     if (note.level == pressure_level::critical)
                                       more.reset();
                                     else if (!more)
                                       more.emplace(vector_of(20 * MiB));
                                     held_bytes();
                                   },
                                   options};
    {
      const bytes_vector vector = vector_of(40 * MiB);
      while (calls < 10) std::this_thread::yield();
    }
    pressure.end();
    more.reset();
    const int at_end = calls;
    const bytes_vector vector = vector_of(40 * MiB);
    CHECK(calls == at_end);
    held_bytes();
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
