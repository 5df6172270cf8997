// SPDX-License-Identifier: MIT
// A buffer that grew by a second reservation right behind the first, as HIP's guide to virtual
// memory shows: copies and fills across the border.
#include "virtual_memory.hpp"

#include <cstring>

int main() {
  begin("a copy or fill may span two adjacent reservations, both mapped and granted");
  const std::size_t bytes = granularity();
  char* const base = reserve(2 * bytes);  // finds addresses with as many free behind them
  REQUIRE(hipMemAddressFree(base, 2 * bytes));
  if (reserve(bytes, base) != base || reserve(bytes, base + bytes) != base + bytes)
    finish(cannot_ask, "hipMemAddressReserve did not follow the hints");
  for (char* at : {base, base + bytes}) {
    map(at, bytes);
    REQUIRE(grant(at, bytes, 0));
  }
  char* const border = base + bytes - 8;
  char sent[17] = "0123456789abcdef", received[17] = {};
  int refused = 0;
  const auto show = [&refused](const char* name, hipError_t result) {
    std::printf("got       %-12s %s\n", name, hipGetErrorName(result));
    if (result != hipSuccess) ++refused;
  };
  show("fill", hipMemset(border, 0, 16));
  show("copy to", hipMemcpy(border, sent, 16, hipMemcpyHostToDevice));
  show("copy from", hipMemcpy(received, border, 16, hipMemcpyDeviceToHost));
  if (refused != 0) finish(defect_seen, std::to_string(refused) + " of 3 were refused");
  if (std::strcmp(sent, received) != 0) finish(defect_seen, "the bytes that came back are others");
  finish(as_documented, "the bytes came back");
}
