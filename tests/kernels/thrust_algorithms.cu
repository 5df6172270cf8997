// SPDX-License-Identifier: MIT
#include "thrust_algorithms.hpp"

#include <thrust/execution_policy.h>
#include <thrust/sort.h>
#include <thrust/uninitialized_fill.h>

#include <hipvmm/compat/hipmm_thrust.hpp>

namespace {

// What a program of hipMM passes as `stream.value()`; with the cuda provider both name one stream.
cudaStream_t native(hipvmm::stream_ref stream) {
  return reinterpret_cast<cudaStream_t>(stream.get());
}

}  // namespace

void fill_by_thrust(hipvmm::device_uvector<int>& numbers, int value, hipvmm::stream_ref stream) {
  thrust::uninitialized_fill(thrust::cuda::par.on(native(stream)), numbers.begin(), numbers.end(),
                             value);
}

void sort_by_thrust(hipvmm::device_uvector<int>& numbers, hipvmm::stream_ref stream,
                    hipvmm::mr::memory_resource* temporary) {
  thrust::sort(hipvmm::exec_policy{stream, temporary}, numbers.begin(), numbers.end());
}
