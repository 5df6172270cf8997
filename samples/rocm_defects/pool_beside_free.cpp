// SPDX-License-Identifier: MIT
// One thread creates and destroys pools; another frees memory of its own, ends streams or waits.
#include "defect.hpp"

namespace {

void free_memory() {
  void* memory = nullptr;
  REQUIRE(hipMalloc(&memory, 1 << 16));
  REQUIRE(hipFree(memory));
}
void end_stream() {
  hipStream_t stream;
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  REQUIRE(hipStreamDestroy(stream));
}
void wait_for_device() { REQUIRE(hipDeviceSynchronize()); }
hipMemPool_t used_pool(hipStream_t stream) {
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  hipMemPool_t pool = nullptr;
  void* block = nullptr;
  unsigned long long keep_all = ~0ULL;
  REQUIRE(hipMemPoolCreate(&pool, &properties));
  REQUIRE(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep_all));
  REQUIRE(hipMallocFromPoolAsync(&block, 1 << 16, pool, stream));
  REQUIRE(hipFreeAsync(block, stream));
  REQUIRE(hipStreamSynchronize(stream));
  return pool;
}

int ask(void (*beside)(), std::chrono::milliseconds duration) {
  int supported = 0;
  REQUIRE(hipDeviceGetAttribute(&supported, hipDeviceAttributeMemoryPoolsSupported, 0));
  if (supported == 0) finish(cannot_ask, "the device has no stream-ordered pools");
  hipStream_t own;
  REQUIRE(hipStreamCreateWithFlags(&own, hipStreamNonBlocking));
  static_cast<void>(used_pool(own));  // another one in the list of pools
  std::thread{[beside] {
    while (true) beside();
  }}.detach();
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) REQUIRE(hipMemPoolDestroy(used_pool(own)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {  // the argument: milliseconds that the race is looked for
  const std::chrono::milliseconds duration{argc > 1 ? std::atoi(argv[1]) : 18'000};
  int worst = 0;
  for (auto* const beside : {free_memory, end_stream, wait_for_device})
    if (const int status = in_child([&] { return ask(beside, duration / 3); })) worst = status;
  begin("pools come and go while another thread frees memory, ends streams or waits");
  if (worst == cannot_ask) finish(cannot_ask, "see above");
  if (worst != 0) finish(defect_seen, "a process was ended (by signal 14: it stood still)");
  finish(as_documented, "all calls returned");
}
