// SPDX-License-Identifier: MIT
// The rows of a budget's report while processes join, leave and die.
#include "ipc/budget/budget_tables.hpp"
#include "support/test.hpp"

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

}  // namespace
}  // namespace hipvmm::test
