// SPDX-License-Identifier: MIT
#include "thrust_algorithms.hpp"

#include <thrust/execution_policy.h>
#include <thrust/sort.h>
#include <thrust/uninitialized_fill.h>

#include <cstddef>

#include <hipvmm/compat/hipmm_thrust.hpp>
#include <hipvmm/container/device_buffer.hpp>
#include "gpu_runtime.hpp"

#if defined(__HIPCC__)
#include <hipcub/device/device_reduce.hpp>
namespace device_system = thrust::hip;
namespace cub = hipcub;
#else
#include <cub/device/device_reduce.cuh>
namespace device_system = thrust::cuda;
#endif

void fill_by_thrust(hipvmm::device_uvector<int>& numbers, int value, hipvmm::stream_ref stream) {
  // A program of hipMM passes `stream.value()` so.
  thrust::uninitialized_fill(device_system::par.on(hipvmm::gpu::native(stream.get())),
                             numbers.begin(), numbers.end(), value);
}

void sort_by_thrust(hipvmm::device_uvector<int>& numbers, hipvmm::stream_ref stream,
                    hipvmm::mr::memory_resource* temporary) {
  thrust::sort(hipvmm::exec_policy{stream, temporary}, numbers.begin(), numbers.end());
}

int sum_by_cub(const hipvmm::device_uvector<int>& numbers, hipvmm::device_scalar<int>& sum,
               hipvmm::stream_ref stream, hipvmm::mr::memory_resource* temporary) {
  const auto native = hipvmm::gpu::native(stream.get());
  const int count = static_cast<int>(numbers.size());
  std::size_t bytes = 0;
  const int asked =
      cub::DeviceReduce::Sum(nullptr, bytes, numbers.data(), sum.data(), count, native);
  if (asked != 0) return asked;
  hipvmm::device_buffer storage{bytes, stream, temporary};
  return cub::DeviceReduce::Sum(storage.data(), bytes, numbers.data(), sum.data(), count, native);
}
