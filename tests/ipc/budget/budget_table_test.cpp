// SPDX-License-Identifier: MIT
// The records of a budget without files or devices: claims, turns, deaths, any contents.
#include "ipc/budget/budget_tables.hpp"
#include "ipc/budget/budget_test.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;
using detail::budget_table;

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

std::chrono::steady_clock::time_point soon() { return std::chrono::steady_clock::now() + 20s; }

TEST_CASE("budget_table: what exceeds a lowered limit stays, and nothing is added") {
  shared_table table{100};
  budget_table& a = table.add();
  REQUIRE(a.claim(80));
  table.layout->header.limit = 50;
  CHECK_FALSE(a.claim(1));
  CHECK(a.left() == 0);
  CHECK(a.own_held() == 80);
  const detail::trim_request duty = a.duty(a.request());
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
      // Half of them are processes that run.
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
  in_threads(threads, [&](int i) {
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
  CHECK(exceeded == 0);
  CHECK(claims > threads);
  CHECK(table.holders[0]->left() == limit);
}

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

TEST_CASE("budget_table: without a record of its own it takes no other for that") {
  shared_table table{100};
  budget_table a{*table.layout};
  const detail::process_identity other = detail::own_process_identity();
  REQUIRE(a.join(other + 1, 0, "holder"));
  REQUIRE(a.claim(30));
  auto& records = table.layout->records;
  // Others took the process to be dead, and have its record by now.
  SUBCASE("all are taken") {
    for (auto& each : records) each.owner = other;
  }
  SUBCASE("it is reaped while it takes another") {
    for (auto& each : records) each.owner = other;
    records[1].owner = 0;
    const at_step meanwhile{"cleared", [&] { records[1].owner = other; }};
    CHECK_FALSE(a.keep_record());
  }
  for (std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    records[at].held = 20;
    records[at].waiting_for = 20;
    records[at].waits_until_ms = largest;
  }
  CHECK_FALSE(a.claim(1));
  CHECK_FALSE(a.is_waiting());
  CHECK(a.most_left() == 100);
  CHECK(a.left() == 60);
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
      if (is_in[which]) CHECK(one.own_held() == held[which]);
      CHECK(one.left() == (limit > now ? limit - now : 0));
    }
  }
}

TEST_CASE("budget_table: a process that lost its record counts what it holds in another") {
  shared_table table{100};
  budget_table& a = table.add();
  budget_table& b = table.add();
  REQUIRE(a.claim(40));
  auto& lost = table.layout->records[0];
  const detail::process_identity other = detail::own_process_identity() + 1;
  detail::process_identity owner = 0;
  SUBCASE("where nobody has it") {}
  SUBCASE("where another process has it") { owner = other; }
  lost.owner = owner;
  lost.held = 7;
  std::uint64_t held = owner == 0 ? 0 : 7;
  SUBCASE("when it claims") {
    CHECK(a.claim(20));
    held += 60;
  }
  SUBCASE("when it releases") {
    a.set_held(30);
    held += 30;
  }
  SUBCASE("when it waits") {
    a.set_waiting(10, soon());
    CHECK(a.is_waiting());
    held += 40;
  }
  SUBCASE("when it answers") {
    a.answer(a.request());
    held += 40;
  }
  SUBCASE("when it is told to see") {
    a.keep_record();
    held += 40;
  }
  CHECK(b.held() == held);
  if (owner == 0) return;
  CHECK(lost.held == 7);
  CHECK(lost.claimed == 0);
  CHECK(lost.waiting_for == 0);
  a.leave();
  CHECK(lost.owner == other);
  CHECK(b.held() == 7);
}

TEST_CASE("budget_table: a process that lost its record and finds no other gets no more") {
  shared_table table{100};
  budget_table a{*table.layout};
  REQUIRE(a.join(detail::own_process_identity() + 1, 0, "lost"));
  REQUIRE(a.claim(40));
  table.layout->records[0].owner = 0;
  for (std::size_t i = 0; i < detail::max_budget_processes; ++i) table.add();
  REQUIRE(table.holders.front()->claim(7));
  CHECK_FALSE(a.claim(1));
  a.set_held(30);
  a.set_waiting(1, soon());
  a.answer(9);
  CHECK(table.layout->records[0].held == 7);
  CHECK(table.layout->records[0].waiting_for == 0);
  CHECK(table.layout->records[0].answered != 9);
  a.leave();
  CHECK(table.layout->records[0].owner == detail::own_process_identity());
  table.holders.front()->leave();
  CHECK_FALSE(a.claim(100));  // it has left
}

}  // namespace
}  // namespace hipvmm::test
