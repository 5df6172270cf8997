// SPDX-License-Identifier: MIT
// A pool reuses memory in the order of a stream: memory that work in flight uses is allocated again
// for later work in the same stream, without a wait and without a call of HIP.
#include <cstdint>
#include <cstdio>
#include <exception>

#include <hipvmm/pool.hpp>

/// Whether an array takes over the memory of another one whose work need not be done yet.
bool reuses_in_stream_order(hipvmm::mr::vmm_pool_resource& pool, const hipvmm::stream& stream) {
  const void* before = nullptr;
  {
    const hipvmm::device_uvector<float> temporary{1'000'000, stream, &pool};
    before = temporary.data();
    // ... kernels in `stream` that use it ...
  }  // deallocated in the order of the stream: nobody waits
  const hipvmm::device_uvector<std::int32_t> next{1'000'000, stream, &pool};
  return next.data() == before;
}

namespace {

int run() {
  const hipvmm::stream stream;
  hipvmm::mr::vmm_pool_resource pool{stream.device()};
  const bool reused = reuses_in_stream_order(pool, stream);

  const hipvmm::mr::pool_statistics now = pool.statistics();
  std::printf("memory %s; %zu bytes of the device held, %zu in use at most\n",
              reused ? "reused" : "not reused", now.reserved_current, now.used_high);
  if (!reused || now.used_current != 0) {
    std::fputs("pool_in_stream_order: the pool did not reuse what it got back\n", stderr);
    return 1;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pool_in_stream_order: %s\n", error.what());
    return 1;
  }
}
