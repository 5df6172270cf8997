// SPDX-License-Identifier: MIT
// A stream fills memory and is destroyed before anything waited for it; then the device is waited
// for, and the memory freed. The runtime may keep the stream's last commands, and with them the
// memory, and the record of mapped addresses. Control: the stream is waited for first.
#include "virtual_memory.hpp"

namespace {

void fill_and_destroy(void* at, std::size_t bytes, bool waits) {
  hipStream_t stream;
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  REQUIRE(hipMemsetAsync(at, 1, bytes, stream));
  if (waits) REQUIRE(hipStreamSynchronize(stream));
  REQUIRE(hipStreamDestroy(stream));
  REQUIRE(hipDeviceSynchronize());
}

// Bytes of the device that three allocations keep after they were freed.
std::size_t lost_by_allocations(bool waits) {
  constexpr std::size_t bytes = 64 << 20;
  std::size_t before = 0, after = 0, all = 0;
  for (int round = 0; round < 4; ++round) {
    void* memory = nullptr;
    REQUIRE(hipMalloc(&memory, bytes));
    fill_and_destroy(memory, bytes, waits);
    REQUIRE(hipFree(memory));
    // The runtime itself allocates in the first round.
    REQUIRE(hipMemGetInfo(round == 0 ? &before : &after, &all));
  }
  return before > after ? before - after : 0;
}

// The result of the free of a smaller reservation at the start of a used one.
hipError_t free_of_next_reservation(bool waits) {
  const std::size_t bytes = granularity();
  char* const at = reserve(4 * bytes);
  map(at, bytes);
  REQUIRE(grant(at, bytes, 0));
  fill_and_destroy(at, bytes, waits);
  REQUIRE(hipMemUnmap(at, bytes));
  REQUIRE(hipMemAddressFree(at, 4 * bytes));
  return hipMemAddressFree(reserve(bytes, at), bytes);
}

}  // namespace

int main() {
  begin("memory is free after hipFree, and addresses can be freed and reserved in another size");
  const std::size_t waited = lost_by_allocations(true), unwaited = lost_by_allocations(false);
  const hipError_t next = free_of_next_reservation(false);
  std::printf(
      "got       %zu bytes lost where the stream was waited for, %zu where not;\n"
      "          hipMemAddressFree of the next reservation: %s\n",
      waited, unwaited, hipGetErrorName(next));
  if (unwaited > waited || next != hipSuccess) finish(defect_seen, "they were kept");
  finish(as_documented, "nothing was kept");
}
