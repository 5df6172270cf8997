// SPDX-License-Identifier: MIT
#include "core/background_thread.hpp"

#include <signal.h>

#include "support/process/forked_child.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

using detail::background_thread;

TEST_CASE("background_thread: works in a thread of its own until stopped") {
  std::promise<std::thread::id> running;
  std::atomic<bool> ended{false};
  background_thread thread{[&](const std::stop_token& stop) {
    running.set_value(std::this_thread::get_id());
    while (!stop.stop_requested()) std::this_thread::yield();
    ended = true;
  }};
  REQUIRE(thread.start());
  CHECK(running.get_future().get() != std::this_thread::get_id());
  CHECK_FALSE(ended);
  thread.stop();
  CHECK(ended);
}

TEST_CASE("background_thread: takes no signals of the program, but faults of its own") {
  ::sigset_t seen{};
  ::sigset_t before{};
  ::sigset_t after{};
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  background_thread thread{[&](const std::stop_token&) {  //
    ::pthread_sigmask(SIG_SETMASK, nullptr, &seen);
  }};
  REQUIRE(thread.start());
  thread.stop();
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int each : {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGRTMIN})
    CHECK(::sigismember(&seen, each) == 1);
  // A program's profiler times this thread too.
  for (const int each : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF})
    CHECK(::sigismember(&seen, each) == 0);
  for (int each = 1; each < SIGRTMIN; ++each)
    CHECK(::sigismember(&after, each) == ::sigismember(&before, each));
}

TEST_CASE("background_thread: a second start leaves the one thread as it is") {
  std::atomic<int> starts{0};
  background_thread thread{[&](const std::stop_token&) { ++starts; }};
  REQUIRE(thread.start());
  REQUIRE(thread.start());
  thread.stop();
  CHECK(starts == 1);
}

TEST_CASE("background_thread: does not start any more once stopped") {
  background_thread thread{[](const std::stop_token&) { FAIL("started"); }};
  thread.stop();
  CHECK_FALSE(thread.start());
}

TEST_CASE("background_thread: ends at once in a child of fork(), which has no thread") {
  background_thread thread{[](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
  }};
  REQUIRE(thread.start());
  CHECK(succeeds_in_forked_child([&] {
    const bool starts = thread.start();
    thread.stop();
    thread.~background_thread();
    return !starts;
  }));
  CHECK_FALSE(thread.is_of_parent());
  thread.stop();
}

}  // namespace
}  // namespace hipvmm::test
