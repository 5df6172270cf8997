// SPDX-License-Identifier: MIT
// The order of work, with HIPVMM_HOST_CHECK=1: programs that are right are not reported, and those
// that only look so are.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <future>
#include <thread>

#include "race_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t size = 4096;

/// Memory that two streams write, one after the other, in the order that `edge` makes.
struct two_writers {
  const nothing_left check{};
  const allocation memory{size};

  template <class Edge>
  bool ordered(hipStream_t first, hipStream_t second, Edge&& edge) const {
    return is_clean([&] {
      write_in(memory.at(), size, first);
      edge();
      write_in(memory.at(), size, second);
    });
  }
  bool ordered(hipStream_t first, hipStream_t second) const {
    return ordered(first, second, [] {});
  }
};

void wait_until_done(hipError_t (*query)(void*), void* of) {
  while (query(of) == hipErrorNotReady) std::this_thread::yield();
}

}  // namespace

TEST_CASE("order: a stream comes after itself") {
  const two_writers race;
  const stream work;
  CHECK(race.ordered(work.get(), work.get()));
}

TEST_CASE("order: two streams do not come after each other") {
  const two_writers race;
  const stream first;
  const stream second;
  CHECK_FALSE(race.ordered(first.get(), second.get()));
}

TEST_CASE("order: a stream comes after an event it waits for, reached or not") {
  const two_writers race;
  const stream first;
  const stream second;
  const stream third;
  CHECK(race.ordered(first.get(), second.get(), [&] { order(first.get(), second.get()); }));
  const held_streams held;
  write_in(race.memory.at(), size, first.get());
  order(first.get(), third.get());
  write_in(race.memory.at(), size, third.get());
  CHECK(hipvmm_host_order_reports() == 0);
}

TEST_CASE("order: an event stands for the work before it only") {
  const two_writers race;
  const stream first;
  const stream second;
  const event early;
  REQUIRE(hipEventRecord(early.get(), first.get()) == hipSuccess);
  CHECK_FALSE(race.ordered(first.get(), second.get(), [&] {
    REQUIRE(hipStreamWaitEvent(second.get(), early.get(), 0) == hipSuccess);
  }));
}

TEST_CASE("order: goes on over two events") {
  const two_writers race;
  const stream first;
  const stream middle;
  const stream last;
  CHECK(race.ordered(first.get(), last.get(), [&] {
    order(first.get(), middle.get());
    order(middle.get(), last.get());
  }));
}

TEST_CASE("order: the null stream comes after blocking streams, and they after it") {
  const two_writers race;
  const stream blocking{hipStreamDefault};
  CHECK(race.ordered(blocking.get(), nullptr));
  CHECK(race.ordered(nullptr, blocking.get()));
}

TEST_CASE("order: the null stream joins two blocking streams, whatever it does") {
  const two_writers race;
  const allocation other{size};
  const stream first{hipStreamDefault};
  const stream second{hipStreamDefault};
  CHECK_FALSE(race.ordered(first.get(), second.get()));
  CHECK(race.ordered(first.get(), second.get(), [&] { write_in(other.at(), size, nullptr); }));
}

TEST_CASE("order: the null stream and non-blocking streams do not come after each other") {
  const two_writers race;
  const stream free;
  CHECK_FALSE(race.ordered(free.get(), nullptr));
  CHECK_FALSE(race.ordered(nullptr, free.get()));
}

TIDY_CASE("order: the null streams of two devices do not come after each other") {
  const pinned memory{size};
  CHECK_FALSE(is_clean([&] {
    write_in(memory.at(), size, nullptr);
    REQUIRE(hipSetDevice(1) == hipSuccess);
    write_in(memory.at(), size, nullptr);
  }));
}

TEST_CASE("order: what the host has waited for comes before what it submits then") {
  struct row {
    const char* name;
    void (*wait)(hipStream_t first, hipEvent_t behind_it);
  };
  const row rows[]{
      {"hipStreamSynchronize",
       [](hipStream_t first, hipEvent_t) { REQUIRE(hipStreamSynchronize(first) == hipSuccess); }},
      {"hipDeviceSynchronize",
       [](hipStream_t, hipEvent_t) { REQUIRE(hipDeviceSynchronize() == hipSuccess); }},
      {"hipEventSynchronize",
       [](hipStream_t, hipEvent_t at) { REQUIRE(hipEventSynchronize(at) == hipSuccess); }},
      {"hipStreamQuery that says success",
       [](hipStream_t first, hipEvent_t) {
         wait_until_done([](void* of) { return hipStreamQuery(static_cast<hipStream_t>(of)); },
                         first);
       }},
      {"hipEventQuery that says success",
       [](hipStream_t, hipEvent_t at) {
         wait_until_done([](void* of) { return hipEventQuery(static_cast<hipEvent_t>(of)); }, at);
       }},
      {"hipEventElapsedTime that says success",
       [](hipStream_t, hipEvent_t at) {
         wait_until_done(
             [](void* of) {
               float time = 0;
               return hipEventElapsedTime(&time, static_cast<hipEvent_t>(of),
                                          static_cast<hipEvent_t>(of));
             },
             at);
       }},
      {"a synchronous copy of the same stream",
       [](hipStream_t first, hipEvent_t) {
         const allocation from{1};
         std::byte to{};
         REQUIRE(hipMemcpyAsync(&to, from.at(), 1, hipMemcpyDefault, first) == hipSuccess);
       }},
      {"hipFree, which waits for the device",
       [](hipStream_t, hipEvent_t) { const allocation short_lived{1}; }},
      {"hipHostFree, which waits for all devices",
       [](hipStream_t, hipEvent_t) { const pinned short_lived{1}; }},
      {"a host function behind it that has told",
       [](hipStream_t first, hipEvent_t) {
         std::promise<void> ran;
         REQUIRE(hipLaunchHostFunc(
                     first, [](void* of) { static_cast<std::promise<void>*>(of)->set_value(); },
                     &ran) == hipSuccess);
         ran.get_future().wait();
       }},
  };
  for (const row& each : rows) {
    CAPTURE(each.name);
    const two_writers race;
    const stream first;
    const stream second;
    const event behind;
    CHECK(race.ordered(first.get(), second.get(), [&] {
      REQUIRE(hipEventRecord(behind.get(), first.get()) == hipSuccess);
      each.wait(first.get(), behind.get());
    }));
  }
}

TEST_CASE("order: waiting for another stream tells the host nothing of this one") {
  const two_writers race;
  const stream first;
  const stream second;
  const stream other;
  CHECK_FALSE(
      race.ordered(first.get(), second.get(), [&] { REQUIRE(other.wait() == hipSuccess); }));
}

TEST_CASE("order: waiting for the null stream is waiting for the blocking ones") {
  const two_writers race;
  const stream blocking{hipStreamDefault};
  const stream free;
  const stream second;
  const auto wait = [] { REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess); };
  CHECK(race.ordered(blocking.get(), second.get(), wait));
  CHECK_FALSE(race.ordered(free.get(), second.get(), wait));
}

TEST_CASE("order: the host knows what a stream that it waits for has waited for") {
  const two_writers race;
  const stream first;
  const stream middle;
  const stream second;
  CHECK(race.ordered(first.get(), second.get(), [&] {
    order(first.get(), middle.get());
    REQUIRE(middle.wait() == hipSuccess);
  }));
}

TEST_CASE("order: threads count as one, whose calls come one after the other") {
  const two_writers race;
  const stream first;
  const stream second;
  CHECK(race.ordered(first.get(), second.get(),
                     [&] { std::thread{[&] { static_cast<void>(first.wait()); }}.join(); }));
}

TEST_CASE("order: work of a destroyed stream still counts") {
  const two_writers race;
  const stream second;
  hipStream_t first = nullptr;
  REQUIRE(hipStreamCreateWithFlags(&first, hipStreamNonBlocking) == hipSuccess);
  CHECK_FALSE(
      race.ordered(first, second.get(), [&] { REQUIRE(hipStreamDestroy(first) == hipSuccess); }));
}

TIDY_CASE("order: a pool lends a block again to whom it may, and that is in order") {
  const pool source;
  const stream first;
  const stream second;
  CHECK(is_clean([&] {
    std::byte* const block = source.allocate(size, first.get());
    write_in(block, size, first.get());
    free_in(block, first.get());
    const event freed;
    REQUIRE(hipEventRecord(freed.get(), first.get()) == hipSuccess);
    // Reached, whether the host has been told or not: the pool may lend it to any stream.
    float time = 0;
    while (hipEventElapsedTime(&time, freed.get(), freed.get()) == hipErrorNotReady) {
    }
    std::byte* const again = source.allocate(size, second.get());
    CHECK(again == block);
    write_in(again, size, second.get());
    free_in(again, second.get());
  }));
}

TIDY_CASE("order: memory freed by the host comes after all work on it") {
  const pool source;
  const stream work;
  CHECK(is_clean([&] {
    std::byte* const block = source.allocate(size, work.get());
    write_in(block, size, work.get());
    REQUIRE(hipFree(block) == hipSuccess);
  }));
}

TIDY_CASE("order: noted bytes are handed on in order by an event or by the host") {
  const allocation arena{size};
  const stream first;
  const stream second;
  const stream third;
  CHECK(is_clean([&] {
    note_allocate(arena.at(), size, first.get());
    write_in(arena.at(), size, first.get());
    note_deallocate(arena.at(), size, first.get());
    order(first.get(), second.get());
    note_allocate(arena.at(), size / 2, second.get());
    write_in(arena.at(), size / 2, second.get());
    note_deallocate(arena.at(), size / 2, second.get());
    REQUIRE(second.wait() == hipSuccess);
    note_allocate(arena.at(), size, third.get());
    note_allocate(arena.at(64), 64, third.get());
    write_in(arena.at(64), 64, third.get());
    note_deallocate(arena.at(64), 64, third.get());
    note_deallocate(arena.at(), size, third.get());
  }));
}

TIDY_CASE("order: new memory at the addresses of old has no past") {
  const reservation addresses{granule};
  const hipMemAccessDesc wanted = access_of(0);
  const stream first;
  const stream second;
  CHECK(is_clean([&] {
    for (const hipStream_t each : {first.get(), second.get()}) {
      const memory chunk{granule};
      REQUIRE(hipMemMap(addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
      REQUIRE(hipMemSetAccess(addresses.at(), granule, &wanted, 1) == hipSuccess);
      note_allocate(addresses.at(), size, each);
      write_in(addresses.at(), size, each);
      note_deallocate(addresses.at(), size, each);
      REQUIRE(hipStreamSynchronize(each) == hipSuccess);
      REQUIRE(hipMemUnmap(addresses.at(), granule) == hipSuccess);
    }
  }));
}

TIDY_CASE("order: a prefetch moves pages and races with nothing") {
  const stream first;
  const stream second;
  void* managed = nullptr;
  REQUIRE(hipMallocManaged(&managed, size, hipMemAttachGlobal) == hipSuccess);
  CHECK(is_clean([&] {
    write_in(managed, size, first.get());
    REQUIRE(hipMemPrefetchAsync(managed, size, 0, second.get()) == hipSuccess);
    write_in(managed, size, first.get());
  }));
  REQUIRE(hipFree(managed) == hipSuccess);
}

TEST_CASE("order: a stream comes after the write of a number that it waits for") {
  const two_writers race;
  const pinned number{8};
  const stream first;
  const stream second;
  const auto write = [&](std::uint32_t value) {
    CHECK(hipStreamWriteValue32(first.get(), number.at(), value, 0) == hipSuccess);
  };
  const auto wait = [&](std::uint32_t value) {
    CHECK(hipStreamWaitValue32(second.get(), number.at(), value, hipStreamWaitValueGte, ~0U) ==
          hipSuccess);
  };
  CHECK(race.ordered(first.get(), second.get(), [&] {
    write(1);
    wait(1);
  }));
  CHECK(race.ordered(first.get(), second.get(), [&] {
    wait(2);
    write(2);
  }));
  // The wait is over by a write that came before the first of the two.
  CHECK_FALSE(race.ordered(first.get(), second.get(), [&] { wait(2); }));
}

TEST_CASE("order: a number that other work overwrote lets no later wait go on") {
  const two_writers race;
  const pinned number{8};
  const stream first;
  const stream second;
  const auto wait = [&] {
    CHECK(hipStreamWaitValue32(second.get(), number.at(), 1, hipStreamWaitValueEq, ~0U) ==
          hipSuccess);
  };
  const auto write = [&] {
    CHECK(hipStreamWriteValue32(first.get(), number.at(), 1, 0) == hipSuccess);
  };
  CHECK(race.ordered(first.get(), second.get(), [&] {
    write();
    wait();
  }));
  CHECK(hipMemsetD32Async(number.at(), 0, 1, second.get()) == hipSuccess);
  CHECK(second.wait() == hipSuccess);
  wait();
  CHECK(race.ordered(first.get(), second.get(), write));
}

HIPVMM_CHILD("streams of one handle") {
  const nothing_left check;
  const allocation memory{size};
  hipStream_t handle = nullptr;
  const std::string text = report_of([&] {
    for (int use = 0; use < 2; ++use) {
      hipStream_t made = nullptr;
      REQUIRE(hipStreamCreateWithFlags(&made, hipStreamNonBlocking) == hipSuccess);
      REQUIRE((use == 0 || made == handle));
      handle = made;
      write_in(memory.at(), size, handle);
      REQUIRE(hipStreamDestroy(handle) == hipSuccess);
    }
  });
  const std::string name = "in non-blocking stream " + hexadecimal(handle);
  CHECK(contains(text, "first: hipMemsetAsync writes them, " + name +
                           " of device 0, an earlier stream with that handle\n"));
  CHECK(contains(text, "second: hipMemsetAsync writes them, " + name + " of device 0\n"));
}

HIPVMM_CHILD("events of one handle") {
  const two_writers written;
  const stream first;
  const stream second;
  hipEvent_t stale = nullptr;
  REQUIRE(hipEventCreate(&stale) == hipSuccess);
  CHECK_FALSE(written.ordered(first.get(), second.get(), [&] {
    REQUIRE(hipEventRecord(stale, first.get()) == hipSuccess);
    REQUIRE(hipEventDestroy(stale) == hipSuccess);
    hipEvent_t next = nullptr;
    REQUIRE(hipEventCreate(&next) == hipSuccess);
    REQUIRE(next == stale);
    REQUIRE(hipStreamWaitEvent(second.get(), stale, 0) == hipSuccess);
  }));
  CHECK(hipEventDestroy(stale) == hipSuccess);
}

TEST_CASE("order checker: objects with one handle after the other are told apart") {
  for (const char* name : {"streams of one handle", "events of one handle"}) {
    check_child(name, {"HIPVMM_HOST_REUSE_HANDLES=1", "HIPVMM_HOST_PROFILE=strict"});
  }
}
