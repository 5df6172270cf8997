// SPDX-License-Identifier: MIT
#include "kernels.hpp"

#include "gpu_runtime.hpp"

namespace hipvmm::test {
namespace {

// A test that lost the kernel must fail, not hang.
constexpr long long most_milliseconds = 10'000;

// One block, so that all threads see the same word before each round.
__global__ void count_until(unsigned* elements, std::size_t count, const volatile unsigned* stop,
                            unsigned* rounds, long long most_ticks) {
  __shared__ bool go_on;
  const long long start = gpu::ticks();
  for (unsigned round = 1;; ++round) {
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) elements[i] += 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      go_on = *stop == 0 && gpu::ticks() - start < most_ticks;
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

using gpu::native;

}  // namespace

int launch_count_until(unsigned* elements, std::size_t count, const volatile unsigned* stop,
                       unsigned* rounds, ihipStream_t* stream) {
  count_until<<<1, 256, 0, native(stream)>>>(elements, count, stop, rounds,
                                             most_milliseconds * gpu::ticks_per_millisecond());
  return gpu::last_error();
}

int launch_write(unsigned* element, unsigned value, ihipStream_t* stream) {
  write<<<1, 1, 0, native(stream)>>>(element, value);
  return gpu::last_error();
}

int launch_read(const unsigned* element, unsigned* result, ihipStream_t* stream) {
  read<<<1, 1, 0, native(stream)>>>(element, result);
  return gpu::last_error();
}

int launch_number(unsigned* elements, std::size_t first, std::size_t end, ihipStream_t* stream) {
  const auto blocks = static_cast<unsigned>((end - first + 255) / 256);
  number<<<blocks, 256, 0, native(stream)>>>(elements, first, end);
  return gpu::last_error();
}

int launch_copy(void* destination, const void* source, std::size_t bytes, ihipStream_t* stream) {
  copy<<<4096, 256, 0, native(stream)>>>(static_cast<uint4*>(destination),
                                         static_cast<const uint4*>(source), bytes / sizeof(uint4));
  return gpu::last_error();
}

}  // namespace hipvmm::test
