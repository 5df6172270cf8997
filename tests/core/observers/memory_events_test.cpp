// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <hipvmm/core/observers/memory_events.hpp>

#include "core/observers/memory_events.hpp"
#include "support/process/forked_child.hpp"
#include "support/test.hpp"

namespace hipvmm {
namespace {

constexpr detail::event_origin some_pool{memory_event_source::pool, 7, 2};

void send(std::size_t size) {
  detail::report_event(some_pool, memory_event_kind::allocate,
                       {.address = 0x1000, .bytes = size, .peer = 3});
}

std::vector<std::size_t> sizes_of(const std::vector<memory_event>& events) {
  std::vector<std::size_t> result;
  for (const memory_event& each : events) result.push_back(each.bytes);
  return result;
}

}  // namespace

TEST_CASE("memory_event_subscription: a ring keeps what was reported, and read() takes it out") {
  send(1);
  memory_event_subscription all;
  const std::int64_t before = detail::event_time();
  send(2);
  send(3);
  const std::vector<memory_event> seen = all.read();
  REQUIRE(sizes_of(seen) == std::vector<std::size_t>{2, 3});
  CHECK(seen[0].kind == memory_event_kind::allocate);
  CHECK(seen[0].source == memory_event_source::pool);
  CHECK(seen[0].object == 7);
  CHECK(seen[0].device == 2);
  CHECK(seen[0].peer == 3);
  CHECK(seen[0].address == 0x1000);
  CHECK(seen[0].thread == seen[1].thread);
  CHECK(seen[0].time_ns >= before);
  CHECK(seen[1].time_ns >= seen[0].time_ns);
  CHECK(all.read().empty());
  CHECK(all.lost() == 0);
}

TEST_CASE("memory_event_subscription: a full ring overwrites the oldest events and counts them") {
  memory_event_subscription all{3};
  for (std::size_t i = 1; i <= 5; ++i) send(i);
  CHECK(all.lost() == 2);
  CHECK(sizes_of(all.read()) == std::vector<std::size_t>{3, 4, 5});
  CHECK(all.lost() == 2);
  send(6);
  CHECK(sizes_of(all.read()) == std::vector<std::size_t>{6});
  CHECK(all.lost() == 2);
}

TEST_CASE("memory_event_subscription: events of all threads come in the order of time") {
  memory_event_subscription all;
  for (std::size_t i = 0; i < 6; ++i) std::thread{[i] { send(i); }}.join();
  CHECK(sizes_of(all.read()) == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("memory_event_subscription: a deallocation is where it began") {
  memory_event_subscription all;
  const std::int64_t began = detail::event_time();
  send(1);
  detail::report_event(some_pool, memory_event_kind::deallocate, {.bytes = 2, .time_ns = began});
  CHECK(sizes_of(all.read()) == std::vector<std::size_t>{2, 1});
}

TEST_CASE(
    "memory_event_subscription: a reader beside writers gets each event whole, or counts it") {
  constexpr std::size_t each_thread = 20000;
  constexpr std::size_t threads = 3;
  memory_event_subscription all{64};
  std::atomic<std::size_t> ended{0};
  std::vector<std::thread> writers;
  for (std::size_t t = 0; t < threads; ++t)
    writers.emplace_back([&, t] {
      for (std::size_t i = 0; i < each_thread; ++i)
        detail::report_event({memory_event_source::region, t, static_cast<int>(t)},
                             memory_event_kind::map, {.address = i, .bytes = 2 * i});
      ++ended;
    });
  std::vector<memory_event> seen;
  std::vector<std::size_t> next(threads);
  bool is_last = false;
  while (!is_last) {
    is_last = ended == threads;
    const std::vector<memory_event> more = all.read();
    seen.insert(seen.end(), more.begin(), more.end());
  }
  for (std::thread& each : writers) each.join();
  CHECK(seen.size() + all.lost() == threads * each_thread);
  bool is_whole = true;
  for (const memory_event& each : seen) {
    REQUIRE(each.object < threads);
    is_whole = is_whole && each.bytes == 2 * each.address && each.address >= next[each.object] &&
               each.device == static_cast<int>(each.object);
    next[each.object] = each.address + 1;
  }
  CHECK(is_whole);
}

TEST_CASE("memory_event_subscription: a process has one, and another when that has ended") {
  {
    const memory_event_subscription first;
    CHECK_THROWS_WITH_AS(memory_event_subscription{}, doctest::Contains("there is one already"),
                         std::logic_error);
    CHECK_THROWS_AS((memory_event_subscription{[](const memory_event&) {}}), std::logic_error);
    send(1);
  }
  memory_event_subscription second;
  send(2);
  CHECK(sizes_of(second.read()) == std::vector<std::size_t>{2});
}

TEST_CASE("memory_event_subscription: it refuses a ring of nothing and an empty callback") {
  CHECK_THROWS_AS(memory_event_subscription{std::size_t{0}}, std::invalid_argument);
  CHECK_THROWS_AS(memory_event_subscription{memory_event_subscription::callback{}},
                  std::invalid_argument);
  CHECK_NOTHROW(memory_event_subscription{});
}

TEST_CASE("memory_event_subscription: a callback runs in the thread that reports") {
  std::thread::id where;
  std::vector<std::size_t> seen;
  memory_event_subscription all{[&](const memory_event& event) {
    where = std::this_thread::get_id();
    seen.push_back(event.bytes);
  }};
  send(1);
  CHECK(where == std::this_thread::get_id());
  std::thread{[] { send(2); }}.join();
  CHECK(where != std::this_thread::get_id());
  CHECK(seen == std::vector<std::size_t>{1, 2});
  CHECK(all.read().empty());
}

TEST_CASE("memory_event_subscription: what its callback causes is not reported again, but lost") {
  int calls = 0;
  const memory_event_subscription all{[&](const memory_event&) {
    ++calls;
    send(2);
  }};
  send(1);
  CHECK(calls == 1);
  CHECK(all.lost() == 1);
}

TEST_CASE("memory_event_subscription: what a callback throws is told to the error handler") {
  const test::error_recorder reported;
  const memory_event_subscription all{[](const memory_event& event) {
    if (event.bytes == 1) throw std::runtime_error{"no room for it"};
    throw 2;
  }};
  send(1);
  send(2);
  REQUIRE(reported.count() == 2);
  CHECK(reported.errors()[0].message.find("no room for it") != std::string::npos);
  CHECK(reported.errors()[1].call == std::string_view{"memory_event_subscription"});
}

TEST_CASE("memory_event_subscription: a callback gets events of a locked section behind it") {
  std::mutex lock;
  std::vector<std::size_t> seen;
  const memory_event_subscription all{[&](const memory_event& event) {
    const bool is_open = lock.try_lock();
    if (is_open) lock.unlock();
    seen.push_back(is_open ? event.bytes : 0);
  }};
  {
    const detail::events_wait outer;
    const std::lock_guard held{lock};
    const detail::events_wait inner;
    send(1);
    send(2);
    CHECK(seen.empty());
  }
  CHECK(seen == std::vector<std::size_t>{1, 2});
}

TEST_CASE("memory_event_subscription: a later one gets no event that waited for an earlier one") {
  auto first = std::make_unique<memory_event_subscription>([](const memory_event&) {});
  int calls = 0;
  std::unique_ptr<memory_event_subscription> second;
  {
    const detail::events_wait waits;
    send(1);
    first.reset();
    second = std::make_unique<memory_event_subscription>([&](const memory_event&) { ++calls; });
  }
  CHECK(calls == 0);
}

TEST_CASE("memory_event_subscription: events of probes are not reported") {
  memory_event_subscription all;
  {
    const detail::events_pause unreported;
    send(1);
  }
  send(2);
  CHECK(sizes_of(all.read()) == std::vector<std::size_t>{2});
}

TEST_CASE("memory_event_subscription: its end waits for callbacks in other threads") {
  std::atomic<bool> is_called{false};
  std::atomic<bool> may_return{false};
  std::atomic<bool> has_returned{false};
  auto all = std::make_unique<memory_event_subscription>([&](const memory_event&) {
    is_called = true;
    while (!may_return) std::this_thread::yield();
    has_returned = true;
  });
  std::thread reporter{[] { send(1); }};
  while (!is_called) std::this_thread::yield();
  std::thread opener{[&] { may_return = true; }};
  all.reset();
  CHECK(has_returned);
  reporter.join();
  opener.join();
}

#ifndef __SANITIZE_THREAD__  // lets no child of a process with threads start one
TEST_CASE("memory_event_subscription: it ends in a child of fork() that lacks a reporting thread") {
  std::atomic<bool> is_called{false};
  std::atomic<bool> may_return{false};
  auto all = std::make_unique<memory_event_subscription>([&](const memory_event&) {
    is_called = true;
    while (!may_return) std::this_thread::yield();
  });
  std::thread reporter{[] { send(1); }};
  while (!is_called) std::this_thread::yield();
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    all.reset();
    std::size_t seen = 0;
    {
      const memory_event_subscription own{[&](const memory_event&) { ++seen; }};
      std::thread{[] { send(2); }}.join();
      send(3);
    }
    ::_exit(seen == 2 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  may_return = true;
  reporter.join();
}
#endif

TEST_CASE("memory_event_subscription: a child of fork() reads nothing, and waits for nobody") {
  memory_event_subscription all;
  std::atomic<bool> done{false};
  std::thread reader{[&] {
    while (!done) static_cast<void>(all.read());
  }};
  bool works = true;
  for (int i = 0; i < 20 && works; ++i)
    works = test::succeeds_in_forked_child([&] {
      send(1);  // this thread has no ring yet
      return all.read().empty() && all.lost() == 0;
    });
  done = true;
  reader.join();
  CHECK(works);
}

TEST_CASE("memory_event_subscription: it begins and ends beside threads that report") {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> reporters;
  for (int t = 0; t < 3; ++t)
    reporters.emplace_back([&] {
      while (!is_over) {
        send(8);
        std::this_thread::yield();
      }
    });
  std::size_t wrong = 0;
  std::size_t seen = 0;
  for (int i = 0; i < 200 || seen == 0; ++i) {
    memory_event_subscription all{16};
    for (const memory_event& each : all.read()) {
      ++seen;
      if (each.bytes != 8) ++wrong;
    }
  }
  std::atomic<std::size_t> calls{0};
  for (int i = 0; i < 200 || calls == 0; ++i) {
    const auto counter = std::make_unique<std::atomic<int>>(0);
    const memory_event_subscription all{[&](const memory_event&) {
      ++*counter;
      ++calls;
    }};
    std::this_thread::yield();
  }
  is_over = true;
  for (std::thread& each : reporters) each.join();
  CHECK(wrong == 0);
  CHECK(seen != 0);
}

TEST_CASE("memory_event_subscription: an end in its own callback is reported, and ends it") {
  const test::error_recorder reported;
  std::unique_ptr<memory_event_subscription> all;
  int calls = 0;
  all = std::make_unique<memory_event_subscription>([&](const memory_event&) {
    ++calls;
    all.reset();
  });
  send(1);
  send(2);
  CHECK(calls == 1);
  CHECK(reported.count() == 1);
}

TEST_CASE("memory_event_kind: each kind has a name of its own") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < memory_event_kind_count; ++i)
    names.insert(to_string(static_cast<memory_event_kind>(i)));
  CHECK(names.size() == memory_event_kind_count);
  CHECK(to_string(memory_event_kind::out_of_memory) == std::string_view{"out_of_memory"});
}

}  // namespace hipvmm
