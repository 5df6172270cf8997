// SPDX-License-Identifier: MIT
#include "append_kernels.hpp"

#include "gpu_runtime.hpp"

namespace hipvmm::test {
namespace {

constexpr unsigned block_threads = 256;

__device__ unsigned thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void append_all(appender ref, unsigned first, unsigned count) {
  const unsigned i = thread_index();
  if (i < count) ref.push(first + i);
}

__global__ void append_hits(appender ref, unsigned count, unsigned divisor) {
  const unsigned i = thread_index();
  if (i < count && is_hit(i, divisor)) ref.push(i);
}

// Threads of a warp make different numbers of rounds, and part within each.
__global__ void append_in_loops(appender ref, unsigned count) {
  const unsigned i = thread_index();
  if (i >= count) return;
  for (unsigned round = 0; round < i % loop_rounds; ++round)
    if (is_hit(i + round, 3)) ref.push(i);
}

__global__ void append_not_done(appender ref, unsigned count, unsigned divisor,
                                unsigned char* done) {
  const unsigned i = thread_index();
  if (i < count && is_hit(i, divisor) && done[i] == 0) done[i] = ref.push(i) ? 1 : 0;
}

__global__ void append_blocks(appender ref, unsigned count) {
  const unsigned i = thread_index();
  if (i >= count) return;
  const unsigned length = i % most_in_block;
  unsigned* const own = ref.slots(length);
  if (own == nullptr) return;
  for (unsigned k = 0; k < length; ++k) own[k] = i;
}

__global__ void append_to_either(appender even, appender odd, unsigned count) {
  const unsigned i = thread_index();
  if (i >= count) return;
  const appender& chosen = i % 2 == 0 ? even : odd;
  chosen.push(i);
}

template <typename... Parameters, typename... Arguments>
int launch(void (*kernel)(Parameters...), unsigned threads, ihipStream_t* stream,
           Arguments... arguments) {
  const unsigned blocks = (threads + block_threads - 1) / block_threads;
  kernel<<<blocks, block_threads, 0, gpu::native(stream)>>>(arguments...);
  return gpu::last_error();
}

}  // namespace

int launch_append_all(appender ref, unsigned first, unsigned count, ihipStream_t* stream) {
  return launch(append_all, count, stream, ref, first, count);
}

int launch_append_hits(appender ref, unsigned count, unsigned divisor, ihipStream_t* stream) {
  return launch(append_hits, count, stream, ref, count, divisor);
}

int launch_append_in_loops(appender ref, unsigned count, ihipStream_t* stream) {
  return launch(append_in_loops, count, stream, ref, count);
}

int launch_append_not_done(appender ref, unsigned count, unsigned divisor, unsigned char* done,
                           ihipStream_t* stream) {
  return launch(append_not_done, count, stream, ref, count, divisor, done);
}

int launch_append_blocks(appender ref, unsigned count, ihipStream_t* stream) {
  return launch(append_blocks, count, stream, ref, count);
}

int launch_append_to_either(appender even, appender odd, unsigned count, ihipStream_t* stream) {
  return launch(append_to_either, count, stream, even, odd, count);
}

}  // namespace hipvmm::test
