// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>

#include "kernels.hpp"

namespace hipvmm::test {
namespace {

// A test that lost the kernel must fail, not hang.
constexpr long long most_nanoseconds = 10LL * 1000 * 1000 * 1000;

__device__ long long nanoseconds() {
  long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// One block, so that all threads see the same word before each round.
__global__ void count_until(unsigned* elements, std::size_t count, const volatile unsigned* stop,
                            unsigned* rounds) {
  __shared__ bool go_on;
  const long long start = nanoseconds();
  for (unsigned round = 1;; ++round) {
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) elements[i] += 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      go_on = *stop == 0 && nanoseconds() - start < most_nanoseconds;
      *rounds = round;
    }
    __syncthreads();
    if (!go_on) return;
  }
}

__global__ void write(unsigned* element, unsigned value) { *element = value; }

__global__ void read(const unsigned* element, unsigned* result) { *result = *element; }

__global__ void number(unsigned* elements, std::size_t first, std::size_t end) {
  const std::size_t i = first + blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < end) elements[i] = static_cast<unsigned>(i);
}

__global__ void copy(uint4* destination, const uint4* source, std::size_t count) {
  const std::size_t step = gridDim.x * std::size_t{blockDim.x};
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count; i += step)
    destination[i] = source[i];
}

cudaStream_t native(ihipStream_t* stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

int launch_count_until(unsigned* elements, std::size_t count, const volatile unsigned* stop,
                       unsigned* rounds, ihipStream_t* stream) {
  count_until<<<1, 256, 0, native(stream)>>>(elements, count, stop, rounds);
  return cudaGetLastError();
}

int launch_write(unsigned* element, unsigned value, ihipStream_t* stream) {
  write<<<1, 1, 0, native(stream)>>>(element, value);
  return cudaGetLastError();
}

int launch_read(const unsigned* element, unsigned* result, ihipStream_t* stream) {
  read<<<1, 1, 0, native(stream)>>>(element, result);
  return cudaGetLastError();
}

int launch_number(unsigned* elements, std::size_t first, std::size_t end, ihipStream_t* stream) {
  const auto blocks = static_cast<unsigned>((end - first + 255) / 256);
  number<<<blocks, 256, 0, native(stream)>>>(elements, first, end);
  return cudaGetLastError();
}

int launch_copy(void* destination, const void* source, std::size_t bytes, ihipStream_t* stream) {
  copy<<<4096, 256, 0, native(stream)>>>(static_cast<uint4*>(destination),
                                         static_cast<const uint4*>(source), bytes / sizeof(uint4));
  return cudaGetLastError();
}

}  // namespace hipvmm::test
