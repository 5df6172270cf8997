// SPDX-License-Identifier: MIT
// A stream is held; blocks of a stream-ordered pool are allocated and freed in it. Both calls are
// ordered behind the stream's work, so neither needs to wait for it on the host.
#include "defect.hpp"

int main() {
  begin("hipMallocAsync and hipFreeAsync return while the work of their stream is held");
  int pools = 0;
  REQUIRE(hipDeviceGetAttribute(&pools, hipDeviceAttributeMemoryPoolsSupported, 0));
  if (pools == 0) finish(cannot_ask, "the device has no stream-ordered pools");
  hipMemPool_t pool = nullptr;
  unsigned long long keep_all = ~0ULL;
  REQUIRE(hipDeviceGetDefaultMemPool(&pool, 0));
  REQUIRE(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep_all));
  hipStream_t stream;
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  void* block = nullptr;
  REQUIRE(hipMallocAsync(&block, 4096, stream));  // so that the pool has begun
  REQUIRE(hipMemsetAsync(block, 0, 4096, stream));
  REQUIRE(hipStreamSynchronize(stream));

  gate held{stream};
  std::atomic<int> returned{0};
  std::thread caller{[&] {
    for (const std::size_t bytes : {8 << 20, 1 << 20, 1 << 20}) {  // the later ones are recycled
      void* each = nullptr;
      REQUIRE(hipMallocAsync(&each, bytes, stream));
      ++returned;
      REQUIRE(hipFreeAsync(each, stream));
      ++returned;
    }
  }};
  comes_true([&] { return returned == 6; });
  const int early = returned;
  held.open();
  caller.join();
  REQUIRE(hipStreamSynchronize(stream));

  std::printf("got       %d of 6 calls (3 times allocate, free) returned while it was held\n",
              early);
  if (early != 6)
    finish(defect_seen, std::string{early % 2 != 0 ? "hipFreeAsync" : "hipMallocAsync"} +
                            " number " + std::to_string(early / 2 + 1) + " blocked the host");
  finish(as_documented, "all returned");
}
