// SPDX-License-Identifier: MIT
// The records of a budget without files or devices: claims, turns, deaths, any contents.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ipc/budget/budget_table.hpp"
#include "ipc/budget/process_identity.hpp"
#include "ipc/protocol_step.hpp"
#include "support/happens.hpp"
#include "support/process/child_process.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;
using detail::budget_layout;
using detail::budget_table;

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

std::chrono::steady_clock::time_point soon() { return std::chrono::steady_clock::now() + 20s; }

/// A table, and processes that take part, which are all this one.
struct shared_table {
  const std::unique_ptr<budget_layout> layout = std::make_unique<budget_layout>();
  std::vector<std::unique_ptr<budget_table>> holders;

  explicit shared_table(std::uint64_t limit) { layout->header.limit = limit; }
  budget_table& add(int priority = 0) {
    holders.push_back(std::make_unique<budget_table>(*layout));
    REQUIRE(holders.back()->join(detail::own_process_identity(), priority, "holder"));
    return *holders.back();
  }
};

/// A process that has ended.
detail::process_identity dead_process() {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return static_cast<detail::process_identity>(child) << 40 | 1;
}

TEST_CASE("budget_table: claims fit up to the limit, over all holders") {
  shared_table table{100};
  budget_table& a = table.add();
  budget_table& b = table.add();
  CHECK(a.claim(60));
  CHECK_FALSE(b.claim(41));
  CHECK(b.left() == 40);
  CHECK(b.claim(40));
  CHECK_FALSE(a.claim(1));
  CHECK(a.claim(0));
  a.set_held(10);
  CHECK(b.left() == 50);
  CHECK(b.claim(50));
  CHECK(b.own_held() == 90);
  b.leave();
  CHECK(a.held() == 10);
}

TEST_CASE("budget_table: what exceeds a lowered limit stays, and nothing is added") {
  shared_table table{100};
  budget_table& a = table.add();
  REQUIRE(a.claim(80));
  table.layout->header.limit = 50;
  CHECK_FALSE(a.claim(1));
  CHECK(a.left() == 0);
  CHECK(a.own_held() == 80);
  const detail::budget_duty duty = a.duty(a.request());
  CHECK(duty.to_release == 30);
  CHECK(duty.is_turn);
}

TEST_CASE("budget_table: lower priorities come first, then who holds most; higher never") {
  shared_table table{100};
  budget_table& low = table.add(-1);
  budget_table& big = table.add(0);
  budget_table& small = table.add(0);
  budget_table& high = table.add(1);
  budget_table& asks = table.add(0);
  REQUIRE(low.claim(10));
  REQUIRE(big.claim(40));
  REQUIRE(small.claim(20));
  REQUIRE(high.claim(30));
  asks.set_waiting(60, soon());
  const std::uint32_t number = asks.request();
  CHECK(low.duty(number).to_release == 10);
  CHECK(low.duty(number).is_turn);
  CHECK(big.duty(number).to_release == 40);
  CHECK_FALSE(big.duty(number).is_turn);
  CHECK_FALSE(small.duty(number).is_turn);
  CHECK(high.duty(number).to_release == 0);
  CHECK_FALSE(asks.is_answered(number));
  low.answer(number);
  CHECK(big.duty(number).is_turn);
  CHECK_FALSE(small.duty(number).is_turn);
  big.answer(number);
  CHECK(small.duty(number).is_turn);
  small.answer(number);
  CHECK(asks.is_answered(number));
}

TEST_CASE("budget_table: one that waits itself is not asked before others") {
  shared_table table{100};
  budget_table& big = table.add();
  budget_table& small = table.add();
  budget_table& asks = table.add();
  REQUIRE(big.claim(60));
  REQUIRE(small.claim(30));
  asks.set_waiting(20, soon());
  const std::uint32_t number = asks.request();
  CHECK_FALSE(small.duty(number).is_turn);
  big.set_waiting(20, soon());
  CHECK(small.duty(number).is_turn);
}

TEST_CASE("budget_table: whatever may make room wakes those that wait") {
  shared_table table{100};
  budget_table& holder = table.add();
  const auto wakes = [&](const auto& call) {
    const std::uint32_t before = table.layout->header.changes;
    call();
    return table.layout->header.changes != before;
  };
  REQUIRE(holder.claim(50));
  CHECK(wakes([&] { holder.set_held(40); }));
  CHECK_FALSE(wakes([&] { holder.set_held(45); }));
  CHECK(wakes([&] { holder.answer(holder.request()); }));
  holder.set_waiting(10, soon());
  CHECK(wakes([&] { holder.set_waiting(0, soon()); }));
  CHECK(wakes([&] { holder.leave(); }));
}

TEST_CASE("budget_table: what a higher priority waits for is kept for it, until its deadline") {
  shared_table table{100};
  budget_table& high = table.add(1);
  budget_table& low = table.add(0);
  high.set_waiting(80, soon());
  CHECK_FALSE(low.claim(21));
  CHECK(low.claim(20));
  CHECK(high.claim(80));
  high.set_held(0);
  // One that is stopped while it waits blocks nobody.
  high.set_waiting(80, std::chrono::steady_clock::now() - 1s);
  CHECK(low.claim(80));
}

TEST_CASE("budget_table: processes that have ended hold nothing") {
  shared_table table{100};
  budget_table& a = table.add();
  auto& dead = table.layout->records[7];
  dead.held = 90;
  dead.claimed = 5;
  dead.owner = dead_process();
  CHECK(a.holders().size() == 1);
  CHECK(a.claim(100));
  CHECK(dead.owner == 0);
}

TEST_CASE("budget_table: a process that died with a claim delays others, and no more") {
  shared_table table{100};
  budget_table& a = table.add();
  auto& dead = table.layout->records[7];
  dead.claimed = 90;
  dead.owner = dead_process();
  CHECK(a.claim(50));
}

TEST_CASE("budget_table: a process that is stopped with a claim keeps it") {
  shared_table table{100};
  budget_table& a = table.add();
  budget_table& stopped = table.add();
  table.layout->records[1].claimed = 60;
  CHECK_FALSE(a.claim(50));
  CHECK(a.left() == 40);
  CHECK(a.claim(40));
  CHECK(stopped.own_held() == 0);
}

TEST_CASE("budget_table: as many processes take part as there are records") {
  shared_table table{100};
  for (std::size_t i = 0; i < detail::max_budget_processes; ++i) table.add();
  budget_table one_more{*table.layout};
  CHECK_FALSE(one_more.join(detail::own_process_identity(), 0, "late"));
  SUBCASE("one leaves") { table.holders[5]->leave(); }
  SUBCASE("one has died") { table.layout->records[5].owner = dead_process(); }
  CHECK(one_more.join(detail::own_process_identity(), 0, "late"));
}

TEST_CASE("budget_table: a record that is taken over begins with nothing") {
  shared_table table{100};
  budget_table& a = table.add();
  REQUIRE(a.claim(60));
  a.set_waiting(5, soon());
  a.leave();
  const budget_table& b = table.add();
  CHECK(b.held() == 0);
  REQUIRE(b.holders().size() == 1);
  CHECK(b.holders()[0].waiting_for == 0);
}

TEST_CASE("budget_table: contents of other processes do not wrap around") {
  shared_table table{100};
  budget_table& a = table.add();
  REQUIRE(a.claim(50));
  table.add();
  table.layout->records[1].held = largest;
  CHECK(a.left() == 0);
  CHECK_FALSE(a.claim(1));
  CHECK(a.held() == largest);
  CHECK(a.duty(0).to_release == 50);
}

TEST_CASE("budget_table: any contents give an answer") {
  std::mt19937_64 chosen{seeded_generator()()};
  for (int round = 0; round < 20; ++round) {
    shared_table table{0};
    budget_table& a = table.add();
    for (std::size_t at = 1; at < detail::max_budget_processes; ++at) {
      auto& record = table.layout->records[at];
      // Those that run, too.
      record.owner = round % 2 == 0 ? chosen() : detail::own_process_identity();
      record.held = chosen();
      record.claimed = chosen();
      record.waiting_for = chosen();
      record.waits_until_ms = chosen();
      record.priority = static_cast<std::int32_t>(chosen());
      record.answered = static_cast<std::uint32_t>(chosen());
      for (auto& each : record.program) each = static_cast<char>(chosen());
    }
    table.layout->header.limit = round == 0 ? largest : chosen();
    static_cast<void>(a.claim(1));
    static_cast<void>(a.left());
    static_cast<void>(a.is_answered(static_cast<std::uint32_t>(chosen())));
    CHECK(a.duty(static_cast<std::uint32_t>(chosen())).to_release <= a.own_held());
    for (const budget_holder& each : a.holders()) {
      CHECK(each.program.size() <= 32);
      for (const char letter : each.program) CHECK((letter >= ' ' && letter <= '~'));
    }
  }
}

// Holders, one thread each, against the rule that they never hold more than the limit together.
TEST_CASE("budget_table: threads that claim at the same time stay within the limit") {
  constexpr int threads = 4;
  constexpr std::uint64_t limit = 10;
  shared_table table{limit};
  std::vector<budget_table*> holders;
  for (int i = 0; i < threads; ++i) holders.push_back(&table.add());
  std::atomic<std::uint64_t> held{0};
  std::atomic<int> exceeded{0};
  std::atomic<int> claims{0};
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      std::minstd_rand chosen{static_cast<unsigned>(i + 1)};
      for (int round = 0; round < 500; ++round) {
        const std::uint64_t bytes = 1 + chosen() % 6;
        if (!holders[static_cast<std::size_t>(i)]->claim(bytes)) continue;
        ++claims;
        if (held += bytes; held > limit) ++exceeded;
        held -= bytes;
        holders[static_cast<std::size_t>(i)]->set_held(0);
      }
    });
  }
  for (std::thread& each : running) each.join();
  CHECK(exceeded == 0);
  CHECK(claims > threads);
  CHECK(table.holders[0]->left() == limit);
}

/// Calls a function at a step of a claim, the first time only.
class at_step {
 public:
  at_step(const char* step, std::function<void()> call) {
    wanted = step;
    body = std::move(call);
    detail::protocol_step_hook = run;
  }
  ~at_step() { detail::protocol_step_hook = nullptr; }
  at_step(const at_step&) = delete;
  at_step& operator=(const at_step&) = delete;

 private:
  static int run(const char* step) {
    if (body && wanted == step) std::exchange(body, nullptr)();
    return 0;
  }
  static inline std::string wanted;
  static inline std::function<void()> body;
};

TEST_CASE("budget_table: a claim that fits is seen by others before it is counted") {
  shared_table table{100};
  budget_table& a = table.add();
  budget_table& b = table.add();
  bool both = true;
  const at_step meanwhile{"claimed", [&] { both = b.claim(60); }};
  CHECK(a.claim(60));
  CHECK_FALSE(both);
  CHECK(a.held() == 60);
}

TEST_CASE("budget_table: of two claims the later record gives way for a moment") {
  shared_table table{100};
  budget_table& first = table.add();
  budget_table& later = table.add();
  auto& records = table.layout->records;
  SUBCASE("the first goes on when it did") {
    records[1].claimed = 60;
    const at_step meanwhile{"again", [&] {
                              CHECK(records[0].claimed == 60);
                              records[1].claimed = 0;
                            }};
    CHECK(first.claim(60));
  }
  SUBCASE("the later one takes its claim back, and tries again") {
    records[0].claimed = 60;
    const at_step meanwhile{"again", [&] {
                              CHECK(records[1].claimed == 0);
                              records[0].claimed = 0;
                            }};
    CHECK(later.claim(60));
  }
}

// Of two that fit one after the other at least one succeeds: they do not refuse each other.
TEST_CASE("budget_table: of claims at the same time one succeeds where there is room") {
  shared_table table{10};
  budget_table& a = table.add();
  budget_table& b = table.add();
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> go{false};
    bool first = false;
    std::thread other{[&] {
      while (!go) {
      }
      first = b.claim(6);
    }};
    go = true;
    const bool second = a.claim(6);
    other.join();
    CHECK(first != second);
    a.set_held(0);
    b.set_held(0);
  }
}

TEST_CASE("budget_table: random operations agree with a simple model") {
  std::mt19937 chosen = seeded_generator();
  for (int run = 0; run < 20; ++run) {
    std::uint64_t limit = below(chosen, 200);
    shared_table table{limit};
    std::vector<std::uint64_t> held;
    std::vector<bool> is_in;
    for (int i = 0; i < 4; ++i) {
      table.add(static_cast<int>(below(chosen, 3)));
      held.push_back(0);
      is_in.push_back(true);
    }
    for (int operation = 0; operation < 100; ++operation) {
      const std::size_t which = below(chosen, held.size());
      budget_table& one = *table.holders[which];
      std::uint64_t sum = 0;
      for (const std::uint64_t each : held) sum += each;
      const std::uint64_t bytes = below(chosen, 60);
      switch (below(chosen, 5)) {
        case 0:
          limit = below(chosen, 200);
          table.layout->header.limit = limit;
          break;
        case 1:
          if (is_in[which]) {
            held[which] -= std::min(held[which], bytes);
            one.set_held(held[which]);
          }
          break;
        case 2:
          if (below(chosen, 4) != 0) break;
          if (is_in[which]) {
            one.leave();
            held[which] = 0;
          } else {
            REQUIRE(one.join(detail::own_process_identity(), 0, "again"));
            one.set_held(0);
          }
          is_in[which] = !is_in[which];
          break;
        default:
          if (!is_in[which]) break;
          const bool fits = sum + bytes <= limit;
          CHECK(one.claim(bytes) == fits);
          if (fits) held[which] += bytes;
      }
      std::uint64_t now = 0;
      for (const std::uint64_t each : held) now += each;
      CHECK(one.held() == now);
      CHECK(one.left() == (limit > now ? limit - now : 0));
    }
  }
}

TEST_CASE("process_identity: this process runs, one that ended does not, nor does another start") {
  const detail::process_identity self = detail::own_process_identity();
  CHECK(detail::is_running(self));
  CHECK(detail::process_of(self) == ::getpid());
  CHECK_FALSE(detail::is_running(self + 1));
  CHECK_FALSE(detail::is_running(0));
  CHECK_FALSE(detail::is_running(dead_process()));
}

TEST_CASE("process_identity: a process that nobody has waited for does not run") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const ::pid_t child = ::fork();
  if (child == 0) {
    const detail::process_identity self = detail::own_process_identity();
    const ::ssize_t written = ::write(ends[1], &self, sizeof self);
    ::pause();
    ::_exit(written == sizeof self ? 0 : 1);
  }
  detail::process_identity identity = 0;
  REQUIRE(::read(ends[0], &identity, sizeof identity) == sizeof identity);
  CHECK(detail::is_running(identity));
  ::kill(child, SIGKILL);
  CHECK(comes_true([&] { return !detail::is_running(identity); }));
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK_FALSE(detail::is_running(identity));
  ::close(ends[0]);
  ::close(ends[1]);
}

HIPVMM_CHILD("ends its first thread only") {
  const detail::process_identity self = detail::own_process_identity();
  std::thread{[=] {
    // The first is a zombie after some of these looks.
    const bool runs = !happens([=] { return !detail::is_running(self); });
    ::_exit(runs ? 42 : 1);
  }}.detach();
  // pthread_exit() would unwind the stack, through who catches all exceptions.
  ::syscall(SYS_exit, 0);
}

TEST_CASE("process_identity: a process runs when only its first thread has ended") {
  CHECK(run_child("ends its first thread only").status == 42);
}

}  // namespace
}  // namespace hipvmm::test
