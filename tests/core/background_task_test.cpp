// SPDX-License-Identifier: MIT
#include "core/background_task.hpp"

#include <unistd.h>

#include <list>

#include "core/error.hpp"
#include "support/held_worker.hpp"
#include "support/process/forked_child.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;
using detail::background_task;
using detail::wait_for_background_tasks;

TEST_CASE("background_task: runs its body once, in another thread") {
  std::promise<std::thread::id> ran;
  background_task task{[&] { ran.set_value(std::this_thread::get_id()); }};
  REQUIRE(task.submit());
  CHECK(ran.get_future().get() != std::this_thread::get_id());
}

TEST_CASE("background_task: functions of the program are called when it is idle") {
  static background_task* shown = nullptr;
  static int calls_while_pending = -1;
  background_task task{[] { detail::deliver("a call", 1, "failed"); }};
  shown = &task;
  const error_handler before = set_error_handler([](const char*, int, const char*) noexcept {
    calls_while_pending = shown->pending() ? 1 : 0;
  });
  REQUIRE(task.submit());
  wait_for_background_tasks();
  set_error_handler(before);
  CHECK(calls_while_pending == 0);
}

TEST_CASE("background_task: is pending until its body has ended") {
  int written = 0;
  background_task task{[&] { ++written; }};
  CHECK_FALSE(task.pending());
  for (int round = 1; round <= 3; ++round) {
    held_worker held;
    REQUIRE(task.submit());
    CHECK(task.pending());
    held.release();
    detail::wait_for_background_tasks();
    CHECK_FALSE(task.pending());
    CHECK(written == round);
  }
}

TEST_CASE("background_task: request_now runs what was put off, request does not") {
  std::atomic<int> runs{0};
  std::atomic<bool> again{true};
  background_task task{[&] {
    ++runs;
    if (again) task.run_again_in(std::chrono::hours{1});
  }};
  REQUIRE(task.submit());
  while (runs < 1) std::this_thread::yield();
  // A task after it in the queue sees it put off.
  { const held_worker held; }
  CHECK(task.request());
  { const held_worker held; }
  CHECK(runs == 1);
  again = false;
  CHECK(task.request_now());
  detail::wait_for_background_tasks();
  CHECK(runs == 2);
}

TEST_CASE("background_task: cancel_or_wait before it began takes it back") {
  bool ran = false;
  background_task task{[&] { ran = true; }};
  {
    const held_worker held;
    REQUIRE(task.submit());
    task.cancel_or_wait();
    CHECK_FALSE(task.pending());
  }
  detail::wait_for_background_tasks();
  CHECK_FALSE(ran);
}

TEST_CASE("background_task: cancel_or_wait after it began waits for its end") {
  std::promise<void> begun;
  std::atomic<bool> cancelling{false};
  bool ended = false;
  background_task task{[&] {
    begun.set_value();
    while (!cancelling) std::this_thread::yield();
    ended = true;
  }};
  REQUIRE(task.submit());
  begun.get_future().wait();
  cancelling = true;
  task.cancel_or_wait();
  CHECK(ended);
}

TEST_CASE("background_task: tasks run in the order they were submitted") {
  std::vector<int> order;
  std::list<background_task> tasks;
  {
    const held_worker held;
    for (int index = 0; index < 20; ++index) {
      tasks.emplace_back([&order, index] { order.push_back(index); });
      REQUIRE(tasks.back().submit());
    }
    std::next(tasks.begin(), 7)->cancel_or_wait();
  }
  detail::wait_for_background_tasks();
  CHECK(order ==
        std::vector<int>{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
}

TEST_CASE("background_task: what is requested while it runs runs once more") {
  std::promise<void> begun;
  std::promise<void> requested;
  int runs = 0;
  background_task task{[&] {
    if (++runs > 1) return;
    begun.set_value();
    requested.get_future().wait();
  }};
  REQUIRE(task.request());
  begun.get_future().wait();
  REQUIRE(task.request());
  REQUIRE(task.request());
  requested.set_value();
  detail::wait_for_background_tasks();
  CHECK(runs == 2);
}

TEST_CASE(
    "background_task: one that wants to run again lets others go first, until it is cancelled") {
  std::vector<int> order;
  std::atomic<int> runs{0};
  background_task* repeated = nullptr;
  background_task first{[&] {
    order.push_back(1);
    if (++runs < 3) repeated->run_again_in(1ms);
  }};
  background_task second{[&] { order.push_back(2); }};
  repeated = &first;
  {
    const held_worker held;
    REQUIRE(first.request());
    REQUIRE(second.submit());
  }
  detail::wait_for_background_tasks();
  CHECK(order == std::vector<int>{1, 2, 1, 1});
  background_task endless{[&] {
    ++runs;
    repeated->run_again_in(1h);
  }};
  repeated = &endless;
  REQUIRE(endless.request());
  while (runs != 4) std::this_thread::yield();
  endless.cancel_or_wait();
  CHECK_FALSE(endless.pending());
  CHECK(runs == 4);
}

TEST_CASE("background_task: cancel_or_wait a running one ends it, though it asked to run again") {
  // Whether cancel_or_wait() waits already when the body ends is up to the machine: mostly it does.
  for (int round = 0; round < 20; ++round) {
    std::promise<void> begun;
    std::atomic<bool> cancelling{false};
    background_task* self = nullptr;
    int runs = 0;
    background_task task{[&] {
      ++runs;
      self->run_again_in(1h);
      begun.set_value();
      cancelling.wait(false);
      for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
    }};
    self = &task;
    REQUIRE(task.submit());
    begun.get_future().wait();
    cancelling = true;
    cancelling.notify_all();
    task.cancel_or_wait();
    CHECK_FALSE(task.pending());
    CHECK(runs == 1);
  }
}

TEST_CASE("background_task: of two times to run again the earlier one counts") {
  background_task* self = nullptr;
  std::promise<void> again;
  int runs = 0;
  background_task task{[&] {
    if (++runs > 1) return again.set_value();
    self->run_again_in(0ms);
    self->run_again_in(1h);
  }};
  self = &task;
  REQUIRE(task.submit());
  CHECK(again.get_future().wait_for(20s) == std::future_status::ready);
  task.cancel_or_wait();
}

TEST_CASE("background_task: one that is due later does not hold the others up") {
  background_task* self = nullptr;
  std::promise<void> asked;
  background_task late{[&] {
    self->run_again_in(1h);
    asked.set_value();
  }};
  self = &late;
  REQUIRE(late.submit());
  asked.get_future().wait();
  // The first makes sure that the late one waits when the second comes.
  for (int turn = 0; turn < 2; ++turn) {
    std::promise<void> ran;
    background_task task{[&] { ran.set_value(); }};
    REQUIRE(task.submit());
    CHECK(ran.get_future().wait_for(20s) == std::future_status::ready);
    task.cancel_or_wait();
  }
  late.cancel_or_wait();
}

TEST_CASE("background_task: ends at once in a child of fork(), and does not run there") {
  std::promise<void> begun;
  std::promise<void> let_go;
  background_task running{[&] {
    begun.set_value();
    let_go.get_future().wait();
  }};
  background_task queued{[] {}};
  REQUIRE(running.submit());
  begun.get_future().wait();
  REQUIRE(queued.submit());
  CHECK(succeeds_in_forked_child([&] {
    running.cancel_or_wait();
    queued.cancel_or_wait();
    wait_for_background_tasks();
    return !running.pending() && !queued.pending() && !running.submit();
  }));
  let_go.set_value();
  running.cancel_or_wait();
  queued.cancel_or_wait();
}

HIPVMM_CHILD("ends the process in the worker") {
  static background_task queued{[] {}};
  static background_task exiting{[] { std::exit(23); }};
  // Runs behind the worker's own handler, which the first request registers.
  REQUIRE(std::atexit([] {
            wait_for_background_tasks();
            exiting.cancel_or_wait();
          }) == 0);
  REQUIRE(queued.request_in(1h));
  REQUIRE(exiting.submit());
  ::alarm(10);
  for (;;) ::pause();
}

TEST_CASE("background_task: nothing waits for a worker that has ended at exit") {
  check_child_ends(23, "ends the process in the worker");
}

TEST_CASE("background_task: many threads submit, cancel and destroy their own") {
  std::atomic<int> wrong{0};
  in_threads(4, [&wrong](int) {
    for (int round = 0; round < 200; ++round) {
      int runs = 0;
      background_task task{[&runs] { ++runs; }};
      if (!task.submit()) ++wrong;
      if (round % 3 == 0) std::this_thread::yield();
      if (round % 2 == 0) {
        task.cancel_or_wait();
        if (runs > 1 || task.pending()) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace hipvmm::test
