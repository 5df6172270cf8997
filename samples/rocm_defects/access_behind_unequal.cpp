// SPDX-License-Identifier: MIT
// hipMemSetAccess of one whole mapping, if other mappings of the same reservation have other
// sizes or a hole lies between. In units of the granularity: the mappings in their order.
#include "virtual_memory.hpp"

#include <vector>

namespace {

struct piece {
  std::size_t at, units;
};
struct layout {
  const char* name;
  std::vector<piece> pieces;
};

}  // namespace

int main() {
  begin("hipMemSetAccess takes every range that is one whole mapping");
  const std::size_t unit = granularity();
  const std::vector<layout> layouts{{"alone, in the middle of its reservation", {{4, 1}}},
                                    {"1 behind 1", {{0, 1}, {1, 1}}},
                                    {"1 behind 2", {{0, 2}, {2, 1}}},
                                    {"2 behind 1", {{0, 1}, {1, 2}}},
                                    {"1 behind 1 and a hole", {{0, 1}, {4, 1}}},
                                    {"1 behind 2 and a hole", {{0, 2}, {5, 1}}},
                                    {"2 behind 1 and a hole", {{0, 1}, {5, 2}}},
                                    {"4 behind 1, 2 and holes", {{0, 1}, {2, 2}, {8, 4}}}};
  int refused = 0;
  for (const layout& each : layouts) {
    char* const base = reserve(16 * unit);
    for (const piece& mapped : each.pieces) map(base + mapped.at * unit, mapped.units * unit);
    const piece last = each.pieces.back();
    const hipError_t result = grant(base + last.at * unit, last.units * unit, 0);
    std::printf("got       %-40s %s\n", each.name, hipGetErrorName(result));
    if (result != hipSuccess) ++refused;
  }
  if (refused != 0) finish(defect_seen, std::to_string(refused) + " of 8 mappings were refused");
  finish(as_documented, "all were granted");
}
