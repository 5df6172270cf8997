// SPDX-License-Identifier: MIT
// A program of the CUDA runtime for preload.sh, which knows nothing of hipvmm: prints results
// computed in memory of cudaMalloc and cudaMallocAsync.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

#define REQUIRE(call)                                                      \
  do {                                                                     \
    const cudaError_t result = (call);                                     \
    if (result != cudaSuccess) {                                           \
      std::printf("%s failed: %s\n", #call, cudaGetErrorName(result));     \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

__global__ void mix(unsigned* values, std::size_t count, unsigned seed) {
  const std::size_t index = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (index < count) values[index] = static_cast<unsigned>(index) * 2654435761u ^ seed;
}

unsigned long long use(unsigned* values, std::size_t count, unsigned seed, cudaStream_t stream) {
  mix<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(values, count, seed);
  std::vector<unsigned> copy(count);
  REQUIRE(cudaMemcpyAsync(copy.data(), values, count * sizeof(unsigned), cudaMemcpyDeviceToHost,
                          stream));
  REQUIRE(cudaStreamSynchronize(stream));
  unsigned long long sum = 0;
  for (const unsigned each : copy) sum = sum * 31 + each;
  return sum;
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream));
  unsigned long long sum = 0;
  for (unsigned step = 0; step < 200; ++step) {
    const std::size_t count = 1000 + 7919 * std::size_t{step * 7 % 97};
    unsigned* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, count * sizeof(unsigned)));
    sum += use(memory, count, step, nullptr);
    unsigned* ordered = nullptr;
    REQUIRE(cudaMallocAsync(&ordered, count * sizeof(unsigned), stream));
    sum += use(ordered, count, ~step, stream);
    REQUIRE(cudaFreeAsync(ordered, stream));
    REQUIRE(cudaFree(memory));
  }
  void* none = nullptr;
  const cudaError_t refused = cudaMalloc(&none, std::size_t{1} << 46);
  std::printf("sum %016llx, too much: %s, last error %s", sum, cudaGetErrorName(refused),
              cudaGetErrorName(cudaGetLastError()));
  int own = 0;
  std::printf(", free of the program's: %s\n", cudaGetErrorName(cudaFree(&own)));
  REQUIRE(cudaStreamDestroy(stream));
  REQUIRE(cudaDeviceReset());
  return 0;
}
