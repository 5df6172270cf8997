// SPDX-License-Identifier: MIT
// The rows of a budget's report while processes join, leave and die.

#include "ipc/budget/budget_tables.hpp"
#include "ipc/budget/budget_test.hpp"

namespace hipvmm::test {
namespace {

using detail::budget_table;

TEST_CASE("budget_table: memory that goes from one holder to another counts once") {
  shared_table table{100};
  budget_table& a = table.add();
  budget_table& b = table.add();
  REQUIRE(a.claim(100));
  // After the first record was read.
  const at_step meanwhile{"read", [&] {
                            a.set_held(0);
                            CHECK(b.claim(100));
                          }};
  const auto holders = a.holders();
  CHECK((holders[0].bytes == 0 && holders[1].bytes == 100));
}

TEST_CASE("budget_table: bytes of a record's last owner are listed for nobody") {
  shared_table table{100};
  budget_table& a = table.add();
  budget_table& b = table.add();
  REQUIRE(b.claim(60));
  const auto listed = [&] {
    std::size_t sum = 0;
    for (const budget_holder& each : a.holders()) sum += each.bytes;
    return sum;
  };
  std::size_t meanwhile = 0;
  SUBCASE("the next owner has not cleared them") {
    SUBCASE("the last one left") { b.leave(); }
    SUBCASE("the last one died") {
      table.layout->records[1].owner = dead_process();
      CHECK(a.reap());
    }
    const at_step joined{"joined", [&] { meanwhile = listed(); }};
    table.add();
  }
  SUBCASE("the next owner joins while a report is read") {
    const at_step read{"read", [&] {
                         b.leave();
                         table.add();
                       }};
    meanwhile = listed();
  }
  CHECK(meanwhile == 0);
  CHECK(listed() == 0);
  CHECK(a.holders().size() == 2);
}

TEST_CASE("budget_table: a record whose owner died before it cleared it is freed") {
  shared_table table{100};
  budget_table& a = table.add();
  constexpr detail::process_identity joining = detail::process_identity{1} << 63;
  table.layout->records[1].held = 60;
  table.layout->records[1].owner = dead_process() | joining;
  CHECK(a.left() == 40);
  CHECK(a.reap());
  CHECK(a.left() == 100);
  table.layout->records[1].owner = detail::own_process_identity() | joining;
  CHECK_FALSE(a.reap());
}

TEST_CASE("budget_table: a record that another process takes during a claim stays that one's") {
  shared_table table{100};
  detail::budget_table& first = table.add();
  detail::budget_table& own = table.add();
  detail::budget_table& other = table.add();
  REQUIRE(other.claim(10));
  other.leave();
  REQUIRE(first.claim(20));
  const auto taken = [&]() -> detail::budget_record& { return table.layout->records[1]; };
  const at_step frees{"claim", [&] {
                        // As processes that find this one dead.
                        taken().owner = 0;
                        REQUIRE(other.join(detail::own_process_identity() + 1, 0, "other"));
                        other.set_held(30);
                      }};
  CHECK(own.claim(40));
  CHECK(taken().held == 30);
  CHECK(own.held() == 90);
  own.set_held(0);
  CHECK(taken().held == 30);
}

TEST_CASE("budget_table: a claim that a first reading alone refuses succeeds") {
  shared_table table{100};
  detail::budget_table& other = table.add();
  detail::budget_table& own = table.add();
  REQUIRE(other.claim(90));
  // As if the first reading had counted memory twice that moves between two others.
  static detail::budget_table* moving = nullptr;
  static int readings = 0;
  moving = &other;
  readings = 0;
  detail::protocol_step_hook = [](const char* step) {
    if (std::string_view{step} == "claim" && ++readings == 2) moving->set_held(50);
    return 0;
  };
  CHECK(own.claim(50));
  detail::protocol_step_hook = nullptr;
  CHECK(own.held() == 100);
  CHECK_FALSE(own.claim(1));
}

}  // namespace
}  // namespace hipvmm::test
