// SPDX-License-Identifier: MIT
#include "strategy/call_prices.hpp"

#include "support/test.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;

/// A list in microseconds.
call_prices listed(std::int64_t create, std::int64_t map, std::int64_t rights, std::int64_t unmap) {
  return call_prices{call_costs{0, create * 1000, map * 1000, rights * 1000, unmap * 1000, 0, 0}};
}

TEST_CASE("call_prices: the decisions of the known price lists") {
  struct row {
    call_prices prices;
    bool unmaps_in_requests;
    std::size_t chunks_of_trim;
    std::chrono::nanoseconds patience;
  };
  for (const row& each : {
           row{call_prices{}, true, 4, 500us},                   // never timed
           row{listed(2, 1, 1, 2), true, 4, 500us},              // memory of the host
           row{listed(15, 1, 30, 21), true, 4, 500us},           // H100
           row{listed(193, 1, 36, 26), true, 4, 500us},          // A100
           row{listed(50, 50, 100, 200), false, 64, 500us},      // AMD, low
           row{listed(200, 300, 700, 1000), false, 64, 1200us},  // AMD, high
           row{listed(9000, 300, 700, 199), true, 4, 2ms},
           row{listed(0, 0, 0, 200), false, 64, 500us},
       }) {
    CAPTURE(each.prices.growth.count());
    CAPTURE(each.prices.unmap.count());
    CHECK(each.prices.unmaps_in_requests() == each.unmaps_in_requests);
    CHECK(each.prices.chunks_of_trim() == each.chunks_of_trim);
    CHECK(each.prices.patience() == each.patience);
  }
}

}  // namespace
}  // namespace hipvmm::detail
