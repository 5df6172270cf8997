// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/support/measure.hpp"

namespace bench {

/// The seconds of both halves of a cycle.
template <typename Wake, typename Sleep>
std::vector<double> cycle(Wake wake, Sleep sleep) {
  const stopwatch first;
  wake();
  const double woken = first.seconds();
  const stopwatch second;
  sleep();
  return {woken, second.seconds()};
}

/// Measures methods whose steps are those of cycle(), and gives the rows of the sleep and those of
/// the wake.
[[nodiscard]] std::vector<measurement> measure_halves(const char* sleep, const char* wake,
                                                      std::size_t bytes,
                                                      const std::vector<method>& methods,
                                                      const settings& chosen);

/// Adds the bandwidth to rows that have samples.
void add_bandwidth(std::vector<measurement>& rows);

}  // namespace bench
