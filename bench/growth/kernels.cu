// SPDX-License-Identifier: MIT
#include "kernels.hpp"

#include <stdexcept>
#include <string>

#include "tests/kernels/gpu_runtime.hpp"

namespace bench {
namespace {

namespace gpu = hipvmm::gpu;

// Enough blocks for every GPU of today to be full several times over; each thread takes many words.
constexpr unsigned blocks = 8192;
constexpr unsigned threads = 512;

// Asks for the time some ten thousand times a second only: all the GPU shares that clock.
__global__ void wait(long long duration) {
  const long long start = gpu::ticks();
  while (gpu::ticks() - start < duration) {
    const long long cycles = clock64();
    while (clock64() - cycles < 200'000) {
    }
  }
}

// Keeps a sum in use for the compiler; never written, because no sum is all ones in memory that
// holds one byte again and again.
__device__ unsigned unused_sum;

__global__ void read(const uint4* source, std::size_t count) {
  unsigned sum = 0;
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 word = source[i];
    sum |= word.x ^ word.y ^ word.z ^ word.w;
  }
  if (sum == ~0U) unused_sum = sum;
}

__global__ void copy(uint4* destination, const uint4* source, std::size_t count) {
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    destination[i] = source[i];
}

using gpu::native;

void require_launched(const char* kernel) {
  const int result = gpu::last_error();
  if (result != 0)
    throw std::runtime_error{std::string{"the kernel that is to "} + kernel +
                             " was not launched: " + gpu::error_text(result)};
}

}  // namespace

void launch_wait(unsigned milliseconds, ihipStream_t* stream) {
  wait<<<1, 1, 0, native(stream)>>>(milliseconds * gpu::ticks_per_millisecond());
  require_launched("wait");
}

void launch_read(const void* source, std::size_t bytes, ihipStream_t* stream) {
  read<<<blocks, threads, 0, native(stream)>>>(static_cast<const uint4*>(source),
                                               bytes / sizeof(uint4));
  require_launched("read");
}

void launch_copy(void* destination, const void* source, std::size_t bytes, ihipStream_t* stream) {
  copy<<<blocks, threads, 0, native(stream)>>>(static_cast<uint4*>(destination),
                                               static_cast<const uint4*>(source),
                                               bytes / sizeof(uint4));
  require_launched("copy");
}

}  // namespace bench
