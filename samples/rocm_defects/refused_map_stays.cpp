// SPDX-License-Identifier: MIT
// hipMemMap at addresses with a mapping, as a program does by mistake once. All is undone
// then, and the addresses are reserved again, for mappings that are as good as any.
#include "virtual_memory.hpp"

int main() {
  begin("a map over a mapping is an error, and leaves the addresses as they were");
  constexpr int rounds = 20;
  const std::size_t unit = granularity();
  const hipMemAllocationProp properties = properties_on(0);
  int reported = 0, refused = 0;
  char* base = nullptr;
  for (int round = 0; round < rounds; ++round) {
    base = reserve(2 * unit, base);
    hipMemGenericAllocationHandle_t first{}, over{};
    REQUIRE(hipMemCreate(&first, unit, &properties, 0));
    REQUIRE(hipMemMap(base, unit, 0, first, 0));
    REQUIRE(hipMemCreate(&over, 2 * unit, &properties, 0));
    if (hipMemMap(base, 2 * unit, 0, over, 0) == hipSuccess) ++reported;
    REQUIRE(hipMemUnmap(base, unit));
    REQUIRE(hipMemRelease(first));
    REQUIRE(hipMemRelease(over));
    REQUIRE(hipMemAddressFree(base, 2 * unit));

    // The same addresses, if they are still free.
    char* const again = reserve(2 * unit, base);
    for (int i = 0; i < 2; ++i) {
      hipMemGenericAllocationHandle_t chunk{};
      REQUIRE(hipMemCreate(&chunk, unit, &properties, 0));
      REQUIRE(hipMemMap(again + i * unit, unit, 0, chunk, 0));
      hipError_t result = grant(again + i * unit, unit, 0);
      if (result == hipSuccess) result = hipMemUnmap(again + i * unit, unit);
      if (result != hipSuccess) {
        std::printf("got       round %d, mapping %d: %s\n", round, i, hipGetErrorName(result));
        ++refused;
      }
    }
    if (refused != 0) break;  // nothing there can be undone
    REQUIRE(hipMemAddressFree(again, 2 * unit));
  }
  if (refused != 0) finish(defect_seen, "later mappings could not be granted or unmapped");
  if (reported != 0)
    finish(defect_seen, std::to_string(reported) + " of 20 maps over a mapping reported success");
  finish(as_documented, "each was refused, and later mappings were as good as any");
}
