// SPDX-License-Identifier: MIT
// A block of a stream-ordered pool is allocated in one stream and freed in another. hipFreeAsync
// orders the free behind the work of the stream that it names, so the next allocation may have the
// block only behind that work.
#include "defect.hpp"

int main() {
  begin("memory freed in stream 2 is not used in stream 1 before the work of stream 2 has passed");
  constexpr std::size_t bytes = 1 << 20;
  int pools = 0;
  REQUIRE(hipDeviceGetAttribute(&pools, hipDeviceAttributeMemoryPoolsSupported, 0));
  if (pools == 0) finish(cannot_ask, "the device has no stream-ordered pools");
  hipMemPool_t pool = nullptr;
  unsigned long long keep_all = ~0ULL;
  REQUIRE(hipDeviceGetDefaultMemPool(&pool, 0));
  REQUIRE(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep_all));
  hipStream_t one, two;
  REQUIRE(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
  REQUIRE(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));

  void *first = nullptr, *second = nullptr;
  REQUIRE(hipMallocAsync(&first, bytes, one));
  REQUIRE(hipMemsetAsync(first, 0x11, bytes, one));
  REQUIRE(hipStreamSynchronize(one));  // so stream 2 may use it
  gate held{two};
  REQUIRE(hipMemsetAsync(first, 0xAA, bytes, two));
  REQUIRE(hipFreeAsync(first, two));
  REQUIRE(hipMallocAsync(&second, bytes, one));
  REQUIRE(hipMemsetAsync(second, 0xBB, bytes, one));
  const bool did_not_wait = comes_true([&] { return hipStreamQuery(one) == hipSuccess; });
  held.open();
  REQUIRE(hipStreamSynchronize(two));
  REQUIRE(hipStreamSynchronize(one));

  unsigned char byte = 0;
  REQUIRE(hipMemcpy(&byte, second, 1, hipMemcpyDeviceToHost));
  std::printf("got       %s block; stream 1 %s; its byte is 0x%02X, it wrote 0xBB\n",
              second == first ? "the same" : "another",
              did_not_wait ? "did not wait for stream 2" : "waited for stream 2", byte);
  if (byte != 0xBB) finish(defect_seen, "stream 2 wrote into the block of stream 1");
  finish(as_documented, "stream 1 has the block to itself");
}
